"""The beginning of a lesson about a toy of three words, and checks of one step, for tests to write lessons from.

What a test is about stands in the test: its own steps, its own models.
"""

TOY = """
number = 50
title = "A toy"
about = "A test."
minutes = 10

[model]
kind = "toy"
words = ["a", "b", "c"]
prompt = "a b c"

[model.config]
vocabulary = 3
width = 8
layers = 1
heads = 2
kv_heads = 1
head_width = 4
mlp_width = 8
max_position = 32
"""

DRAWN_CHECK = """
[[step.check]]
id = "fresh"
kind = "number"
ask = "{n} and one?"
draw = { n = { from = 1, to = 1000 } }
answer = "plus(n, 1)"
why = "Add."
"""

CLICK_CHECK = """
[[step.check]]
id = "look"
kind = "click"
target = "cell"
ask = "Click the last query's key 1."
answer = "[2, 1]"
values = "weights(main, 0, 0)"
why = "There."
"""
