"""`jettison store`: the objects of `jettison serve` and `jettison up --nodes` on disk, while neither runs.

`check` says whether everything there is as it was written; `repair` makes a new store of what can still be read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from jettison.agent.safe_text import printable
from jettison.apiserver.storage.log import shown_text
from jettison.apiserver.storage.repair import Repaired, Report, examine, held, repair
from jettison.apiserver.storage.store import shown
from jettison.cli.options.host_options import state_dir_option
from jettison.cli.output import Remarks, emit, output_option
from jettison.cli.program import LazyGroup

COMMANDS = {
    "check": ("cluster.store:check_command", "Say what is wrong with the store; exits with 3 if anything is."),
    "repair": (
        "cluster.store:repair_command",
        "Make a new store of every row that can be read; the damaged one is kept.",
    ),
}

DAMAGED = 3
"""Not 1: that is the exit code when the store cannot be examined, because a server runs on it."""


@click.command("store", cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """Check or repair the store of a cluster, while no server runs on it."""


@click.command("check", short_help="What is wrong with the store.")
@state_dir_option
@output_option
def check_command(state_dir: Path, output: str) -> int:
    """Check every page, every row and the write-ahead log, and whether acknowledged writes are missing. Change nothing.

    Exits with 0 if all is as it was written, with 3 if not, and with 1 if the store cannot be examined.
    """
    with held(state_dir) as path:
        report = examine(path)
    emit(output, Remarks(), lambda: "\n".join(_report_lines(report)), lambda: {"kind": "StoreReport", **report.data()})
    return 0 if report.is_sound else DAMAGED


def _report_lines(report: Report) -> Iterator[str]:
    for problem in report.problems:
        yield printable(f"damaged: {problem}")
    for each in report.damaged:
        version, storage, namespace, name, *_ = map(shown_text, each.columns)
        yield printable(f"damaged row: version {version}, {shown(storage, (namespace, name))}: {each.why}")
    for storage, namespace, name in report.aside:
        yield printable(f"set aside: {shown(storage, (namespace, name))}")
    if report.seal is not None:
        yield f"{report.rows} rows are as they were written, up to version {report.seal.version}"
    if report.problems:
        state_dir = shlex.quote(str(report.path.parent.parent))
        yield printable(f"a server does not start on it; try: jettison store repair --state-dir {state_dir}")
    elif not report.is_sound:
        yield "a server starts without these; write them again or delete them there"
    else:
        yield f"`{report.path}` is sound"


@click.command("repair", short_help="A new store of every row that can be read.")
@state_dir_option
@click.option(
    "--begin-anew",
    is_flag=True,
    help="Begin with an empty store: all objects are lost. Tokens and certificates stay.",
)
@output_option
def repair_command(state_dir: Path, begin_anew: bool, output: str) -> int:
    """Make a new store of every undamaged row, and say what is lost. The damaged store is kept.

    Use it also to continue with an older copy of the store, or after the write-ahead log was lost: the rows that are
    there count from then on. A sound store is left unchanged.
    """
    with held(state_dir) as path:
        aside: Sequence[tuple[str, str, str]] = ()
        if begin_anew:
            done: Repaired | None = repair(path, begins_anew=True)
        else:
            report = examine(path)
            done = repair(path, report.aside) if report.problems or report.damaged else None
            aside = report.aside
    emit(
        output,
        Remarks(),
        lambda: "\n".join(_unchanged_lines(path, aside) if done is None else _repaired_lines(done)),
        lambda: {"kind": "StoreRepair", "isDone": done is not None, **({} if done is None else done.data())},
    )
    return 0


def _unchanged_lines(path: Path, aside: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Objects that a server has set aside are lost to a repair as well."""
    yield f"`{path}` has no damaged row, nothing was done" if aside else f"`{path}` is sound, nothing was done"
    yield from _aside_lines(aside)


def _aside_lines(aside: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    for storage, namespace, name in aside:
        yield printable(f"set aside: {shown(storage, (namespace, name))}; write it again or delete it")


def _repaired_lines(done: Repaired) -> Iterator[str]:
    yield f"`{done.path}` has {done.rows} rows now and begins with version {done.version}"
    yield from _aside_lines(done.aside)
    if done.missing is None:
        yield "the number of lost rows is not known"
    elif done.missing:
        yield f"{done.missing} rows are lost: objects may be older than they were, or missing"
    if done.acknowledged > done.newest:
        yield f"what was written from version {done.newest + 1} to {done.acknowledged} is lost"
    if done.kept_as is not None:
        yield f"the old store is kept as `{done.kept_as}`"
