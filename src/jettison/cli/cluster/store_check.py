"""`jettison store check`: is everything there as it was written?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from jettison.agent.safe_text import printable
from jettison.apiserver.storage.log import shown_text
from jettison.apiserver.storage.repair import Report, examine, held
from jettison.apiserver.storage.store import shown
from jettison.cli.options.host_options import absolute, state_dir_option
from jettison.cli.output import Remarks, emit, output_option

DAMAGED = 3
"""Not 1: that is what a store ends with that cannot be looked at, because a server runs on it."""


@click.command("check", short_help="What is wrong with the store.")
@state_dir_option
@output_option
def command(state_dir: Path, output: str) -> int:
    """Every page, every row and the write-ahead log, and whether acknowledged writes are missing. Nothing is changed.

    Exits with 0 if all is as it was written, with 3 if not, and with 1 if it cannot be looked at.
    """
    with held(absolute(state_dir)) as path:
        report = examine(path)
    emit(output, Remarks(), lambda: "\n".join(_lines(report)), lambda: {"kind": "StoreReport", **report.data()})
    return 0 if report.is_sound else DAMAGED


def _lines(report: Report) -> Iterator[str]:
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
        yield "a server does not start on it; try: jettison store repair"
    elif not report.is_sound:
        yield "a server starts without these; write them anew or delete them there"
    else:
        yield f"`{report.path}` is sound"
