"""Runs: making a trace, extending it, keeping it in a file, and what it takes."""
