"""The engine: what may be asked of it, what it hands out, and its answers."""
