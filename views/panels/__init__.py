"""The panels, a file each, their contract, their table and the docks they lie in."""
