"""Files that a person saves and opens: sessions, exports, and where they came from."""
