"""The command line, a file for each command; each calls the engine and prints, and never imports views."""
