"""Functions of lessons that run or measure something, with torch; ``model.lessons.table`` says how to add one.

``model`` is a model the lesson declares, ``bundled``, or ``open``. ``prompt`` is text for that model; left out, it is
the model's own prompt in the lesson. Rows are counted from 0, −1 is the last.
"""
