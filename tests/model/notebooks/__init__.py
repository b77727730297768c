"""Tests of what notebooks are given, against transformers and against loops written out."""
