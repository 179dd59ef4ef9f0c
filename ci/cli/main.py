"""Entry point of ``lockstep``: subcommands are found by file name, errors are told without a traceback."""

from __future__ import annotations

import errno
import importlib
import os
import pkgutil
import sys
import traceback

import click

import ci.cli
from engine.contract.errors import LockstepError
from farm.secrets import redact

_NOT_COMMANDS = {"main", "options"}


class FoundCommands(click.Group):
    """A group whose members are the files beside this one: ``ci/cli/NAME.py`` holds ``command``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All subcommands, by name."""
        del ctx
        return sorted(entry.name for entry in pkgutil.iter_modules(ci.cli.__path__) if entry.name not in _NOT_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import one subcommand only when it is asked for: start-up stays short."""
        if name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"ci.cli.{name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a file of this package
        return command


@click.command(
    cls=FoundCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Exit codes of gate: 0 pass, 1 fail, 2 usage or configuration, 3 not everything required was tested.",
)
@click.version_option(package_name="lockstep")
def cli() -> None:
    """Tell whether one inference engine gives the same answer on every chip.

    \b
    Start here:
      lockstep gate       build, deploy, run, compare, report (exit code = verdict)
      lockstep sweep      every suite with every engine on every device, resumable
      lockstep runs       what ran and what runs; watch it, cancel it
      lockstep compare    two captures of any engine, layer by layer
      lockstep repro      a failing layer as a folder that anybody can run
      lockstep emulate    devices that speak adb and ssh, on this machine
      lockstep devices    the fleet and what can run on this machine
      lockstep thresholds noise floors learned from healthy engines
      lockstep faults     break models on purpose: how many faults are found?
      lockstep doctor     is this machine ready?
    """


def main() -> None:
    """Run the command line; leave with the exit code of the error's kind."""
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except LockstepError as error:
        click.secho("error: ", fg="red", bold=True, nl=False, err=True)
        click.echo(redact(str(error)), err=True)
        code = error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:
        code = _storage(error)
    except Exception as error:  # the last line of defence: a message, never a traceback
        code = _unexpected(error)
    sys.exit(code if isinstance(code, int) else 0)


def _storage(error: OSError) -> int:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return _unexpected(error)
    click.echo(
        f"error: cannot write {error.filename or 'a file'}: {error.strerror}\n"
        "  next: free room or mend the permissions; LOCKSTEP_CACHE, LOCKSTEP_STATE and --out choose other places",
        err=True,
    )
    return 3


def _unexpected(error: Exception) -> int:
    if os.environ.get("LOCKSTEP_TRACEBACK"):
        click.echo(redact(traceback.format_exc()), err=True)
    click.echo(
        f"error: an unexpected fault inside lockstep: {type(error).__name__}: {redact(str(error))}\n"
        "  next: run again with LOCKSTEP_TRACEBACK=1 and report what it prints",
        err=True,
    )
    return 3
