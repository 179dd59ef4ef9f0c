"""Imports what gates, workers and tests import, so that the byte code is written once, at set-up."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil

OURS = ("farm", "agents", "engine", "consistency", "reports", "ci")
# What those libraries import by name at run time
LATE = ("celery.bin.worker", "celery.apps.worker", "celery.worker.strategy", "kombu.transport.redis", "pyarrow.parquet")
TOOLS = (
    "pytest",
    "hypothesis",
    "alembic.command",
    "sqlalchemy.dialects.sqlite",
    "pandas",
    "rich.table",
    "rich.progress",
)


def main() -> None:
    """Import everything; what cannot be imported will say so where it is used."""
    for name in (*LATE, *TOOLS):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    for package in OURS:
        with contextlib.suppress(Exception):
            module = importlib.import_module(package)
            for found in pkgutil.walk_packages(module.__path__, f"{package}.", onerror=lambda _: None):
                if "migrations" not in found.name:
                    with contextlib.suppress(Exception):
                        importlib.import_module(found.name)


if __name__ == "__main__":
    main()
