"""``lockstep repro``: a failing layer as a folder that anybody can run."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("repro")
def command() -> None:
    """Cut a failing layer out of a run, and see it fail on its own.

    \b
    Examples:
      lockstep repro make -o bug              the first failing layer of out/latest
      lockstep repro make out/RUN --case vad-noise --device cortex-a53 -o bug
      lockstep repro run bug                  on this host
      lockstep repro run bug --device pixel   on a device of devices.yaml
    """


@command.command("make")
@click.argument("run", type=click.Path(path_type=Path), default=Path("out/latest"))
@click.option("--case", help="The case (default: the first that fails).")
@click.option("--device", help="The device it failed on.")
@click.option("--layer", help="The layer (default: the first deviating one).")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The folder to write.")
def make(run: Path, case: str | None, device: str | None, layer: str | None, out: Path) -> int:
    """Write a folder with the layer's model, inputs, expected values and README.

    \b
    Needs the run's folder and the cache, no network.
    """
    from ci.repro import make_repro  # noqa: PLC0415 - keeps --help quick

    repro = make_repro(Path(), run, out, case=case, device=device, layer=layer, report=lambda _: None)
    click.echo(f"{out}: {repro.op} `{repro.layer}` of {repro.case}, as on {repro.device}")
    click.echo(f"next: lockstep repro run {out}")
    return 0


@command.command("run")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--device", help="A device of the devices file (default: this host).")
@click.option("--devices", "devices_file", type=click.Path(path_type=Path), default=Path("devices.yaml"))
@click.option("--engine", help="Another engine than the one that failed.")
@click.option("--artifacts", type=click.Path(path_type=Path), help="Builds to take instead of building HEAD.")
def run(folder: Path, device: str | None, devices_file: Path, engine: str | None, artifacts: Path | None) -> int:
    """Run the layer of FOLDER alone. Leaves with 1 when it fails, 0 when not.

    \b
    Examples:
      lockstep repro run bug
      lockstep repro run bug --device cortex-a53
      lockstep repro run bug --engine refrt-fast
    """
    from ci.reprorun import run_repro  # noqa: PLC0415 - keeps --help quick

    verdict = run_repro(
        Path(), folder, device=device, devices_file=devices_file, engine=engine, artifacts=artifacts,
        report=lambda line: click.echo(line, err=True),
    )  # fmt: skip
    where = device or "this host"
    click.echo(f"{verdict.status.upper()} {verdict.op} `{verdict.id}` on {where}: {verdict.reason or _same(verdict)}")
    return {"pass": 0, "fail": 1}.get(verdict.status, 3)


def _same(verdict: object) -> str:
    matched = getattr(verdict, "matched", "none")
    return "the golden's bits" if matched == "golden" else "within its bounds"
