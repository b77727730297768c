"""Files that travel with the program: fonts, the bundled model, lessons."""
