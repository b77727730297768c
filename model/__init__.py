"""The transformer and what can be known about one of its runs. No Qt here, and no import of torch at package level."""
