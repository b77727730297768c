"""The look: theme, type, icons, strokes, and how numbers are written."""
