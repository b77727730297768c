"""Runs: making a trace, extending it, and what it takes."""
