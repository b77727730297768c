"""Functions of lessons that are worked out here and now, without torch; ``model.lessons.table`` says how to add one."""
