"""``lockstep export``: a run's layers for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from engine.contract.errors import UsageError


@click.command("export")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--run", type=click.Path(path_type=Path), default=Path("out/latest"), show_default=True)
@click.option("--case", help="only this case (needed for .onnx when the run has several models)")
@click.option("--device", help="only this device")
@click.option("--model", type=click.Path(path_type=Path, exists=True), help="the ONNX file (default: the suite's own)")
def command(target: Path, run: Path, case: str | None, device: str | None, model: Path | None) -> int:
    """Write the layers of a run to TARGET, whose suffix says how.

    \b
    lockstep export layers.csv                 one row a case, device and layer
    lockstep export layers.parquet             the same, typed
    lockstep export layers.json                the same, strict JSON
    lockstep export model.onnx --case CASE     the model, each node with its
                                               metrics (open it in Netron)
    """
    from ci.export import FORMATS, annotate, layers_of, write_table  # noqa: PLC0415

    kind = target.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"{target.name}: unknown kind of file", hint=f"end it in .{', .'.join(FORMATS)}")
    table = layers_of(run, case, device)
    if kind == "onnx":
        told = annotate(model or _model_of(run, case), table, target)
        click.echo(f"{target}: {told} nodes carry the metrics of {table.num_rows} rows")
    else:
        write_table(table, target)
        click.echo(f"{target}: {table.num_rows} layers")
    return 0


def _model_of(run: Path, case: str | None) -> Path:
    """The ONNX file of the run's suite that the case ran; it is in the cache."""
    from ci.prepare import quantised_models  # noqa: PLC0415
    from engine.models.fetch import fetch_suite  # noqa: PLC0415
    from engine.places import cache_root  # noqa: PLC0415
    from farm.suites import find_suite, load_suite  # noqa: PLC0415
    from reports import ReportError, read_verdict  # noqa: PLC0415

    try:
        document = read_verdict(run / "verdict.json")
    except ReportError as error:
        raise UsageError(error.message, hint=error.hint) from error
    models = {entry["model"] for entry in document["cases"] if case in (None, entry["case"])}
    if len(models) != 1:
        raise UsageError(f"the run has {len(models)} models: {', '.join(sorted(models))}", hint="choose with --case")
    suite = load_suite(find_suite(Path("suites"), str(document["run"]["suite"])))
    model = models.pop()
    made = any(entry.id == model and entry.quantise for entry in suite.models)
    fetched = fetch_suite(suite.model_files, suite.input_files if made else (), cache_root(), lambda _: None)
    known = fetched.models | quantised_models(suite, {model}, fetched.models, fetched.files, lambda _: None)
    return known[model]
