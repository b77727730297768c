"""Pictures of the window without a person in front of it."""
