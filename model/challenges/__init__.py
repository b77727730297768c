"""Build challenges: a learner's function is run in a process of its own and compared with the engine.

``challenge`` lists them and what each asks for, without torch. ``grading`` compares, and names the mistake. ``child``
is the process. Who starts it is ``app.lessons.challenges``.
"""
