"""Training the bundled model, measuring it, and writing it as a checkpoint."""
