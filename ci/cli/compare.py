"""``lockstep compare``: two captures of any engine, on files alone."""

from __future__ import annotations

import json
from pathlib import Path

import click

from consistency.thresholds import PROFILE_NAMES
from engine.contract.errors import LockstepError


@click.command(
    "compare", epilog="Exit codes: 0 pass, 1 a layer fails, 2 usage or files, 3 not everything was compared."
)
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--profile",
    "profile_name",
    metavar="NAME",
    default="fp32",
    show_default=True,
    help=f"Thresholds: {', '.join(PROFILE_NAMES)}, or a learned one (lockstep thresholds).",
)
@click.option(
    "--meta", "meta_file", type=click.Path(path_type=Path), help="What raw dumps do not say (docs/compare.md)."
)
@click.option("--allow-extra", is_flag=True, help="B may hold layers that A has not.")
@click.option("--json", "as_json", is_flag=True, help="Print strict JSON.")
def command(a: Path, b: Path, profile_name: str, meta_file: Path | None, allow_extra: bool, as_json: bool) -> int:
    """Judge capture B by the reference A, layer by layer, paired by name or record.

    A capture is a trace folder, a folder of .npy/.pb/.bin files, or one .npz, .safetensors, .npy, .pb (ONNX) or
    .bin file.

    \b
    Examples:
      lockstep compare golden.npz phone.npz
      lockstep compare host/ board/ --profile int8 --meta dumps.yaml
      lockstep compare a.safetensors b.safetensors --json
    """
    from ci.captures import load_meta  # noqa: PLC0415 - the readers' imports are heavy; --help stays quick
    from ci.compare import as_document, compare_captures  # noqa: PLC0415
    from ci.compare_table import comparison_table  # noqa: PLC0415
    from farm import kernel  # noqa: PLC0415
    from farm.floors import find_profile  # noqa: PLC0415

    kernel.install()
    try:
        comparison = compare_captures(
            a,
            b,
            find_profile(profile_name),
            meta=load_meta(meta_file) if meta_file else None,
            meta_source=meta_file or Path(),
            allow_extra=allow_extra,
        )
    except LockstepError as error:
        if as_json:
            click.echo(json.dumps(_failure(error), allow_nan=False))
        raise
    if as_json:
        click.echo(json.dumps(as_document(comparison), allow_nan=False))
    else:
        click.echo(comparison_table(comparison))
    return comparison.exit_code


def _failure(error: LockstepError) -> dict[str, object]:
    """Whoever reads JSON finds JSON, though nothing was compared."""
    reasons = [error.message]
    return {"status": "error", "exit_code": error.exit_code, "reasons": reasons, "coverage": None, "layers": []}
