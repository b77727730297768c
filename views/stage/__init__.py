"""The stage in the middle of the window: workspaces, and where their panels stand."""
