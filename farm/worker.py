"""``python -m farm.worker``: what a worker host is told, and by whom; ``workerhost.py`` is the host itself."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence

from engine.contract.errors import ConfigError, LockstepError, UsageError
from farm import tasks
from farm.broker import URL_VARIABLE as BROKER_VARIABLE
from farm.broker import check_url
from farm.jobs import Executor
from farm.secrets import RedactingFormatter, read_secret, redact
from farm.store.urls import URL_VARIABLE as STORE_VARIABLE
from farm.workerhost import Settings, WorkerHost
from farm.workers import DEFAULT_EXECUTOR


def load_executor(name: str) -> Executor:
    """Import ``module:function``; ``UsageError`` when that is not possible."""
    module_name, _, function_name = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, ValueError, AttributeError) as error:
        raise UsageError(f"executor {name!r}: {error}", hint="name it as MODULE:FUNCTION, importable here") from error
    if not callable(found):
        raise UsageError(f"executor {name!r} is not callable", hint="name a function")
    executor: Executor = found
    return executor


def log_to_stderr() -> None:
    """Log lines of this process and its slots, without passwords."""
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s pid=%(process)d %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("lockstep").setLevel(logging.INFO)  # Celery sets the root's level to its own


def take_urls() -> tuple[str, str | None]:
    """Broker and store (None: the default), taken out of the environment.

    URLs hold passwords. Arguments are for all to see, and programs started for jobs inherit the environment.
    """
    broker, store = read_secret(BROKER_VARIABLE), read_secret(STORE_VARIABLE)
    for variable in (BROKER_VARIABLE, STORE_VARIABLE):
        os.environ.pop(variable, None)
        os.environ.pop(f"{variable}_FILE", None)
    if not broker:
        raise ConfigError("no broker", hint=f"set {BROKER_VARIABLE}=redis://…, or {BROKER_VARIABLE}_FILE=FILE")
    return check_url(broker), store


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m farm.worker", description="Run jobs of the farm on this host.")
    parser.add_argument("--executor", default=DEFAULT_EXECUTOR, help="MODULE:FUNCTION that runs a job")
    parser.add_argument("--concurrency", type=int, default=1, help="how many jobs at a time")
    parser.add_argument("--queue", default=tasks.DEFAULT_QUEUE)
    parser.add_argument("--fate-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, import, serve."""
    log_to_stderr()
    given = _arguments(argv)
    try:
        broker, store = take_urls()
        return WorkerHost(
            Settings(
                executor=load_executor(given.executor),
                broker=broker,
                queue=given.queue,
                store=store,
                slots=max(1, given.concurrency),
                fate_fd=given.fate_fd,
                ready_fd=given.ready_fd,
            )
        ).run()
    except LockstepError as error:
        print(f"error: {redact(str(error))}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
