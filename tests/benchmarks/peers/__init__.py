"""Measurements of Ropewalk beside its peers; every contender runs in a process of its own."""
