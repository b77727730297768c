"""Damaged and hostile files for every reader: a value or a sentence, under limits (``make fuzz``)."""
