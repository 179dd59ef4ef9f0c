"""Faults that a gate must catch: one file a kind, found by file name (files that begin with ``_`` are shared parts).

A fault file offers ``applicable(node, model) -> bool`` and ``apply(node, model) -> None``; ``apply`` changes
that node and nothing another node reads.
"""
