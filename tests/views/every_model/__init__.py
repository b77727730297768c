"""Scripted sessions in the real window, on every kind of model: every control, and its number."""
