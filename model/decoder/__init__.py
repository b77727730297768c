"""The decoder: its config, its parts, and what can be changed in it."""
