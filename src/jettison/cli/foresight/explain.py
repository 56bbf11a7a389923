"""`jettison explain POD|NODE|DECISION`: why, in which order, and what would have changed it.

Told from the journal, so also of pods long gone; or of a node that is looked at now: its agent, files, a cluster.
`jettison why` is the same command. What tells is loaded when it is known which, and after a cluster has been asked.
"""

from __future__ import annotations

from pathlib import Path

import click

from jettison.cli.options.host_options import state_dir_option
from jettison.cli.options.kubelet_flags import KubeletCommand
from jettison.cli.output import Remarks, output_option
from jettison.cli.policy.node_source import (
    NodeSource,
    after_reclaim_option,
    known_history_option,
    node_source_options,
)
from jettison.errors import ManifestError
from jettison.manifests.times import parse_time
from jettison.values import frozen

LAST = "last"


@frozen
class AskedAbout:
    """What is asked about; `kind` is empty where the text alone does not say."""

    text: str
    kind: str = ""
    time_ns: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> AskedAbout:
        """`pod/NAME`, `node/NAME`, `decision/TIME`; or a name, a time, or `last`."""
        if not text:
            return cls("", "node")
        kind, slash, rest = text.partition("/")
        if slash and kind in ("pod", "node") and rest:
            return cls(rest, kind)
        when = rest if slash and kind == "decision" else text
        if when == LAST:
            return cls(when, "decision")
        try:
            return cls(when, "decision", parse_time(when))
        except ManifestError as error:
            if slash and kind == "decision":
                raise click.BadParameter(f"`{when}` is neither a time nor `{LAST}`") from error
            return cls(text)


@click.command(cls=KubeletCommand)
@click.argument("target", metavar="[POD|NODE|DECISION]", required=False)
@node_source_options(known_history_option, after_reclaim_option)
@output_option
@click.option("--node-name", metavar="NAME", help="Which node of this machine. [default: the one that knows the pod]")
@state_dir_option
def command(target: str | None, source: NodeSource, output: str, state_dir: Path, node_name: str | None) -> None:
    """Say why a pod was evicted, or why not, and which single changes would have led to another choice.

    POD is a name, `namespace/name`, or a uid. NODE is a node's name, or nothing: what it would do now. DECISION is
    the time of a step as `jettison journal` prints it, or `last`. Where a text could be several of these, write
    `pod/…`, `node/…` or `decision/…`.

    Without further options the node is one of this machine, and its journal is read. --summary and --pods describe a
    node in files, --node is one of a cluster: then the answer is about now.
    """
    asked = AskedAbout.parse(target)
    if source.is_elsewhere:
        remarks = Remarks()
        seen = source.look(remarks)
        from jettison.cli.foresight.explanation import tell_of_now  # noqa: PLC0415  see above

        tell_of_now(seen, asked, source.profile, output, remarks)
    else:
        source.refuse_settings()
        from jettison.cli.foresight.recorded_explanation import tell_from_records  # noqa: PLC0415  see above

        tell_from_records(asked, state_dir, node_name, output)
