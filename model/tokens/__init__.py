"""Text to ids and back, and chat templates."""
