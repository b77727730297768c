"""Pictures that panels are made of."""
