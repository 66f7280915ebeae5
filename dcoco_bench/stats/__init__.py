"""Statistics: pure functions on the log. Nothing here opens an engine or prints; of methods only vanilla has a name.

Definitions are those of `measurement.md` sections 2 to 4; "missing" is None and is never the same as 0.
"""
