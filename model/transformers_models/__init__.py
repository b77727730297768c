"""Models of transformers' own making, in memory or in a folder, looked at through its attention interface."""
