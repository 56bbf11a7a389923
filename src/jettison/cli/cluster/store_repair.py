"""`jettison store repair`: go on with what is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from jettison.agent.safe_text import printable
from jettison.apiserver.storage.repair import Repaired, examine, held, repair
from jettison.apiserver.storage.store import shown
from jettison.cli.options.host_options import absolute, state_dir_option
from jettison.cli.output import Remarks, emit, output_option


@click.command("repair", short_help="A new store of every row that can be read.")
@state_dir_option
@click.option(
    "--begin-anew",
    is_flag=True,
    help="Begin with an empty store, whatever is there: all objects are gone. Tokens and certificates stay.",
)
@output_option
def command(state_dir: Path, begin_anew: bool, output: str) -> int:
    """Make a new store of every row that is what was written, and tell what is not in it. The damaged one is kept.

    This is also how to go on with an older copy of the store, or without a write-ahead log that is lost: what is there
    counts from then on. A store that is sound is left alone.
    """
    with held(absolute(state_dir)) as path:
        if begin_anew:
            done: Repaired | None = repair(path, begins_anew=True)
        else:
            report = examine(path)
            done = repair(path, report.aside) if report.problems or report.damaged else None
    emit(
        output,
        Remarks(),
        lambda: f"`{path}` is sound, nothing was done" if done is None else "\n".join(_lines(done)),
        lambda: {"kind": "StoreRepair", "isDone": done is not None, **({} if done is None else done.data())},
    )
    return 0


def _lines(done: Repaired) -> Iterator[str]:
    yield f"`{done.path}` has {done.rows} rows now and begins with version {done.version}"
    for storage, namespace, name in done.aside:
        yield printable(f"set aside: {shown(storage, (namespace, name))}; write it anew or delete it")
    if done.missing is None:
        yield "how many rows there were cannot be told"
    elif done.missing:
        yield f"{done.missing} rows are lost without a trace: objects may be older than they were, or missing"
    if done.acknowledged > done.newest:
        yield f"what was written from version {done.newest + 1} to {done.acknowledged} is lost"
    if done.kept_as is not None:
        yield f"the old store is kept as `{done.kept_as}`"
