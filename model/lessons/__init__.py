"""Lessons' numbers: what a lesson file may ask of the engine, and how the answers are written.

``expressions`` reads ``kv_bytes(llama3_70b, tokens=4096)``, ``text`` reads the paragraphs it stands in, ``table`` lists
every function there is, ``values`` writes results. All of that is free of torch; what has to be run or measured is
asked of a ``Laboratory`` (``laboratory``), which lives where torch does.
"""
