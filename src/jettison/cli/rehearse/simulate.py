"""`jettison simulate`: a scenario in virtual time, once or many times."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from jettison.cli.extras import require
from jettison.cli.options.go_flags import WholeNumber
from jettison.cli.output import NOTHING, output_option, print_document, remark, table
from jettison.errors import InputError, WriteError
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.simulator.run import COUNTED, RunResult, run
from jettison.simulator.scenario import Scenario, read_scenario
from jettison.simulator.settings_changes import parse_setting
from jettison.simulator.stories import Happening
from jettison.simulator.sweep import (
    Row,
    jobs_of,
    parse_variation,
    plain,
    run_here,
    run_on_dask,
    summary,
    telling_figures,
    varied,
    write_csv,
    write_parquet,
)

_MOST_SHOWN = 60
_MOST_SEEDS = 100_000


@click.command("simulate", short_help="Run a scenario in virtual time.")
@click.argument("path", metavar="SCENARIO", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Another setting on all nodes; repeatable.")
@click.option("--seed", type=WholeNumber(0), metavar="NUMBER", help="Another seed than the scenario's.")
@click.option(
    "--vary", "variations", multiple=True, metavar="KEY=A,B,…", help="Try each value; repeatable: all of them."
)
@click.option("--seeds", type=WholeNumber(1, _MOST_SEEDS), default=1, metavar="NUMBER", help="So many seeds each.")
@click.option("--processes", type=WholeNumber(1, 1024), metavar="NUMBER", help="For a sweep. [default: all cores]")
@click.option("--scheduler", metavar="ADDRESS", help="Run the sweep on a Dask cluster, as tcp://host:8786.")
@click.option(
    "--story", "story_path", type=click.Path(path_type=Path), metavar="FILE", help="All that happens, as JSON lines."
)
@click.option("--csv", "csv_path", type=click.Path(path_type=Path), metavar="FILE", help="One line for each run.")
@click.option(
    "--parquet", "parquet_path", type=click.Path(path_type=Path), metavar="FILE", help="The same, as Parquet."
)
@click.option(
    "--picture", "pictures", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="SVG or PNG."
)
@click.option("--progress/--no-progress", default=None, help="A bar on standard error; by default on a terminal.")
@output_option
def command(
    path: Path,
    settings: Sequence[str],
    seed: int | None,
    variations: Sequence[str],
    seeds: int,
    processes: int | None,
    scheduler: str | None,
    story_path: Path | None,
    csv_path: Path | None,
    parquet_path: Path | None,
    pictures: Sequence[Path],
    progress: bool | None,
    output: str,
) -> None:
    """Run a scenario: nodes, pods with usage curves, controllers, budgets, drains and faults (docs/simulate.md).

    The agents and all their decisions are real, time and processes are not. The same seed gives the same output. With
    --vary or --seeds it is run many times, and the answer is a table of distributions.
    """
    _require(pictures, parquet_path, scheduler)
    _check_directories([each for each in (*pictures, story_path, csv_path, parquet_path) if each is not None])
    changes = [parse_setting(each) for each in settings]
    if variations or seeds > 1:
        if story_path is not None or changes:
            raise InputError("--story and --set are for one run: use --vary KEY=VALUE in a sweep")
        rows, keys = _sweep(path, variations, seed, seeds, processes, scheduler, progress)
        # Before anything is written: an answer of hours must not be lost to a full disk.
        _show_sweep(rows, keys, output)
        if pictures:
            from jettison.simulator.pictures import draw_sweep  # noqa: PLC0415  an extra

            for each in pictures:
                draw_sweep(rows, keys, path.stem, each)
    else:
        if scheduler is not None:
            raise InputError("--scheduler is for a sweep: give --vary or --seeds")
        scenario = varied(read_scenario(path), changes, "--set")
        result = _run(scenario, seed, story_path, keeps_series=bool(pictures))
        _show(scenario, result, output)
        if pictures:
            from jettison.simulator.pictures import draw_run  # noqa: PLC0415  an extra

            for each in pictures:
                draw_run(scenario, result, each)
        rows = [result.row()]
    if csv_path is not None:
        write_csv(csv_path, rows)
    if parquet_path is not None:
        write_parquet(parquet_path, rows)


def _require(pictures: Sequence[Path], parquet_path: Path | None, scheduler: str | None) -> None:
    """Before anything runs: an hour of runs must not end in a missing package, or in a name that cannot be."""
    program = click.get_current_context().command_path
    if pictures:
        require(program, "plots")
        from jettison.simulator.pictures import format_of  # noqa: PLC0415  an extra

        for each in pictures:
            format_of(each)
    if parquet_path is not None:
        require(program, "parquet")
    if scheduler is not None:
        require(program, "dask")


def _check_directories(paths: Sequence[Path]) -> None:
    """Before anything runs, too: a directory that is not there would be noticed after the last run."""
    for path in paths:
        if not path.parent.is_dir():
            raise WriteError(f"cannot write `{path}`: `{path.parent}` is no directory")


def _run(scenario: Scenario, seed: int | None, story_path: Path | None, *, keeps_series: bool) -> RunResult:
    if story_path is None:
        return run(scenario, seed, keeps_series=keeps_series)
    try:
        with story_path.open("w", encoding="utf-8") as file:

            def write(each: Happening) -> None:
                file.write(json.dumps(each.data()) + "\n")

            return run(scenario, seed, keeps_series=keeps_series, also=write)
    except OSError as error:
        raise WriteError(f"cannot write `{story_path}`: {reason(error)}") from error


def _sweep(
    path: Path,
    variations: Sequence[str],
    seed: int | None,
    seeds: int,
    processes: int | None,
    scheduler: str | None,
    progress: bool | None,
) -> tuple[list[Row], list[str]]:
    wanted = [parse_variation(each) for each in variations]
    keys = [each.key for each in wanted]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise InputError(f"--vary {twice} is given twice: name all its values in one")
    jobs = jobs_of(path, wanted, seeds, seed)
    is_shown = sys.stderr.isatty() if progress is None else progress
    with click.progressbar(length=len(jobs), label="runs", file=sys.stderr, hidden=not is_shown) as bar:
        if scheduler is not None:
            return run_on_dask(jobs, scheduler, bar.update), keys
        return run_here(jobs, processes, bar.update), keys


def _data(scenario: Scenario, result: RunResult) -> dict[str, Any]:
    return {
        "version": 1,
        "kind": "Simulation",
        "scenario": scenario.name,
        "seconds": result.seconds,
        "nodes": len(scenario.nodes),
        "result": result.row(),
        "story": [each.data() for each in result.story],
        "untold": result.untold,
    }


def _show(scenario: Scenario, result: RunResult, output: str) -> None:
    if output != "table":
        print_document(output, _data(scenario, result))
        return
    shown = result.story[:_MOST_SHOWN]
    if shown:
        has_nodes = len(scenario.nodes) > 1
        head = ["SECONDS", *(["NODE"] if has_nodes else []), "WHAT", "ABOUT", "WHY"]
        rows = [
            (f"{each.seconds:.3f}", *([each.node] if has_nodes else []), each.what, each.about, each.detail)
            for each in shown
        ]
        click.echo(table(head, rows, right=("SECONDS",)))
    hidden = len(result.story) + result.untold - len(shown)
    if hidden:
        remark("note", f"and {hidden} lines more: --story FILE has them all")
    told = [_counted(count, name) for what, name in COUNTED.items() if (count := result.counts[what])]
    nodes = "1 node" if len(scenario.nodes) == 1 else f"{len(scenario.nodes)} nodes"
    remark(
        "note",
        f"{nodes}, {result.seconds:.0f} s, {result.steps} looks, seed {result.seed}: {', '.join(told) or 'calm'}",
    )


def _counted(count: int, name: str) -> str:
    """`1 drain timed out`, `2 drains timed out`."""
    words = name.split("_")
    return f"{count} {' '.join(word.removesuffix('s') if count == 1 else word for word in words)}"


def _show_sweep(rows: Sequence[Row], keys: Sequence[str], output: str) -> None:
    found = summary(rows, keys)
    if output != "table":
        print_document(output, {"version": 1, "kind": "Sweep", "keys": list(keys), "combinations": found, "runs": rows})
        return
    head = [*map(plain, keys), "RUNS"]
    figures = telling_figures(rows)
    head += [name.replace("_", " ").upper() for name in figures]
    cells = [
        (*(str(row[key]) for key in keys), str(row["runs"]), *(_figure(row[name]) for name in figures)) for row in found
    ]
    click.echo(table(head, cells, right=head[len(keys) :]))


def _figure(found: dict[str, float]) -> str:
    """Mean, and between what it lay."""
    if found["least"] == found["most"]:
        return _short(found["mean"])
    return f"{_short(found['mean'])} ({_short(found['least'])} to {_short(found['most'])})"


def _short(number: float) -> str:
    text = f"{number:.3f}".rstrip("0").rstrip(".")
    return text or NOTHING
