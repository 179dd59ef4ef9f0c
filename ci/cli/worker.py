"""``lockstep worker``: run the jobs of the devices beside this machine."""

from __future__ import annotations

import click

from farm.hosts import host_queue
from farm.inventory import HOST_NAME
from farm.tasks import DEFAULT_QUEUE
from farm.worker import load_executor, log_to_stderr, take_urls
from farm.workerhost import Settings, WorkerHost
from farm.workers import DEFAULT_EXECUTOR


def _checked(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not HOST_NAME.fullmatch(value):
        raise click.BadParameter("letters, digits, dot, dash, underscore; at most 48")
    return value


@click.command("worker")
@click.option("--name", callback=_checked, help="Serve the devices with `at: NAME`; without it, those without `at`.")
@click.option("--slots", type=click.IntRange(1, 256), default=2, show_default=True, help="Jobs at a time.")
@click.option("--executor", default=DEFAULT_EXECUTOR, hidden=True)
def command(name: str | None, slots: int, executor: str) -> int:
    """Serve a device host: run the jobs of the devices that this machine reaches.

    Broker, store and blobs are the ones that the gates use. URLs hold
    passwords, so they come from the environment, or from files that only you
    can read (LOCKSTEP_BROKER_URL_FILE, LOCKSTEP_STORE_URL_FILE). Ends on
    SIGTERM or Ctrl-C, when running jobs have ended or ten seconds are over.

    \b
    Example, on the machine beside the devices:
      export LOCKSTEP_BROKER_URL=rediss://:PASSWORD@farm.lab:6379/0
      export LOCKSTEP_STORE_URL=postgresql://USER:PASSWORD@farm.lab/lockstep
      export LOCKSTEP_BLOBS_URL=sftp://farm.lab/srv/lockstep/blobs
      lockstep worker --name lab1 --slots 4
    """
    log_to_stderr()
    broker, store = take_urls()
    return WorkerHost(
        Settings(
            executor=load_executor(executor),
            broker=broker,
            queue=host_queue(name) if name else DEFAULT_QUEUE,
            store=store,
            slots=slots,
            fate_fd=None,
            ready_fd=None,
        )
    ).run()
