"""The runner contract: request, result, trace, names and the error root (standard library and numpy only)."""
