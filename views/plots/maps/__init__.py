"""Maps of a matrix: cells, axes, colour bar, marks."""
