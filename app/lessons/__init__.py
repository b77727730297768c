"""Lessons and challenges: read, filled with numbers, played, checked, remembered."""
