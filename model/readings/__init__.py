"""Readings: what can be known about a run, computed when somebody looks."""
