"""Families of decoders, one entry each, and how their configs and weights read as ours."""
