"""Plots with axes."""
