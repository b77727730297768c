"""Lessons' numbers: what a lesson file may ask of the engine, and how the answers are written.

``expressions`` reads ``kv_bytes(llama3_70b, tokens=4096)``, ``text`` reads the paragraphs it stands in, ``table`` lists
every function there is, ``evaluation`` calls them, ``values`` writes results. All of that is free of torch; the
functions in ``measured`` and the ``runs`` they read are imported when the first of them is called.
"""
