"""Tokenizers as files of a checkpoint, one file a kind."""
