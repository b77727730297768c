"""Functions of lessons that are worked out here and now, without torch; ``table`` says how to add one."""
