"""The session: the open model, the run, the selection, and what is done with them."""
