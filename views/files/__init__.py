"""Files from the window: exports, recordings, handouts, sessions."""
