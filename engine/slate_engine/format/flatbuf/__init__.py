"""FlatBuffers in columns: many tables of one kind are read, verified and written at once, a field at a time.

``schema`` and ``generate`` turn our ``.fbs`` files into ``layout``; ``reader`` and ``writer`` work with the fields named
there; ``spans`` is the column of byte strings that passes between them without a copy.
"""
