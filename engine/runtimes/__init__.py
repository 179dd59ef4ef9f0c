"""One file per Python-side runtime, found by file name."""
