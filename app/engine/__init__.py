"""The window's end of the engine, and of the processes that read and write files beside it."""
