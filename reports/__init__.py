"""Reads a run's ``verdict.json`` and ``layers.parquet``; writes HTML, Markdown and JUnit."""
