"""The stories that are played, each many times with other seeds. Every one ends with :meth:`Play.finish`."""
