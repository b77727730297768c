"""The plots of a survey: a number for every head, with its error, as map, scatter and table, and what it comes from."""
