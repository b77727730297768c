"""A run as a file: what its header says, and how it is written and opened."""
