"""The bundled fonts and their licences.

They have names of their own, so that a font of the same name on somebody's machine never takes their place. In the
sans the figures are tabular to begin with, and neither font has contextual alternates: a glyph then stands for one
character, as text copied from a PDF needs it, and a token such as ``->`` is never drawn as an arrow. In the mono the
minus sign is as wide as the bar of its plus sign: the original draws it as a hyphen.
"""
