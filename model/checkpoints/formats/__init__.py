"""Container formats, one file each, and the table of them."""
