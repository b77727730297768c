"""What heads do over many texts: statistics of each, with their errors, as tables."""
