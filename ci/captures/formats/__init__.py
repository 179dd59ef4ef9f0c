"""One file a format.

Each has ``takes(path) -> bool``, ``read(path) -> Capture`` and ``ONE_TENSOR``: whether a file holds a single
tensor that is called by the file's stem, so that a folder of such files is a capture too.
"""
