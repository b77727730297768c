"""The panels, a file each, their contract, their table and the cards they lie in."""
