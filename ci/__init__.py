"""Composition root: the command line, the gate, files for CI systems."""
