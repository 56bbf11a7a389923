"""`jettison events`: the Kubernetes Events of a node, with the reasons and texts that a kubelet has for them.

The agent keeps the newest thousand in memory, so that this command needs a running agent. What was decided, and why, is
in the journal, which outlives the agent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from jettison.agent.journal.reading import PodQuery
from jettison.agent.safe_text import printable
from jettison.apiserver.objects.cells import age
from jettison.cli.inspect.watched_node import WatchedNode, all_nodes_options, names_of
from jettison.cli.output import JSON, TABLE, remark, table
from jettison.cli.program import INTERRUPTED
from jettison.errors import JettisonError, ObservationError

_PAUSE_SECONDS = 0.5
_HEAD = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")

Document = Mapping[str, Any]


@click.command()
@click.argument("pod", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on as more happens, until Ctrl-C.")
@click.option(
    "-o",
    "--output",
    type=click.Choice([TABLE, JSON]),
    default=TABLE,
    show_default=True,
    help="json: one v1 Event a line.",
)
@all_nodes_options
def command(nodes: Sequence[WatchedNode], pod: str | None, follow: bool, output: str) -> int:
    """Show the newest thousand events of a node, oldest first; with POD only those of that pod.

    POD is a name, `namespace/name`, or a uid. Of several nodes of this machine all are shown, with a column that says
    which, unless --node-name chooses one.
    """
    about = None if pod is None else PodQuery.parse(pod)
    if follow:
        return _follow(nodes, about, output)
    found = _events(nodes, about)
    if output == JSON:
        for each in found:
            click.echo(_json(each))
    elif found:
        rows = [(_host(each), *_row(each)) for each in found]
        click.echo(table(("NODE", *_HEAD), rows) if len(nodes) > 1 else table(_HEAD, (row[1:] for row in rows)))
    elif pod is None:
        since = "its agent began" if len(nodes) == 1 else "their agents began"
        remark("note", f"nothing has happened on {names_of(nodes)} since {since}")
    if not found and pod is not None:
        which = f"{names_of(nodes)} has no" if len(nodes) == 1 else f"none{names_of(nodes).removeprefix('any')} has an"
        raise JettisonError(f"{which} event of pod `{pod}`")
    return 0


def _events(nodes: Sequence[WatchedNode], about: PodQuery | None) -> list[Document]:
    found: list[Document] = []
    for node in nodes:
        answer = node.ask("/events")
        if not isinstance(answer, Mapping) or not isinstance(answer.get("items"), list):
            raise ObservationError(f"the agent of node `{node.name}` did not answer with events")
        found += answer["items"]
    if len(nodes) > 1:
        found.sort(key=lambda each: str(each["lastTimestamp"]))
    return [each for each in found if about is None or _is_about(each, about)]


def _is_about(event: Document, about: PodQuery) -> bool:
    involved = event["involvedObject"]
    return involved["kind"] == "Pod" and about.matches(
        (involved.get("namespace", ""), involved["name"], involved.get("uid", ""))
    )


def _follow(nodes: Sequence[WatchedNode], about: PodQuery | None, output: str) -> int:
    """An event that only counts up is told again, as `kubectl get events -w` does."""
    told: dict[tuple[str, ...], int] = {}
    try:
        while True:
            found = _events(nodes, about)
            for each in found:
                if told.get(_key(each)) != each["count"]:
                    click.echo(_json(each) if output == JSON else _line(each))
            told = {_key(each): each["count"] for each in found}
            time.sleep(_PAUSE_SECONDS)
    except KeyboardInterrupt:
        return INTERRUPTED


def _key(event: Document) -> tuple[str, ...]:
    metadata = event["metadata"]
    return _host(event), metadata["namespace"], metadata["name"]


def _host(event: Document) -> str:
    return str((event.get("source") or {}).get("host") or "")


def _json(event: Document) -> str:
    return msgspec.json.encode(event).decode()


def _row(event: Document) -> tuple[str, ...]:
    involved, count = event["involvedObject"], event["count"]
    seen = age(event["lastTimestamp"], time.time_ns())
    if count > 1:
        seen = f"{seen} (x{count})"
    return seen, event["type"], event["reason"], _object(involved), event["message"]


def _object(involved: Document) -> str:
    where = f"{involved['namespace']}/" if involved.get("namespace") else ""
    return f"{involved['kind'].lower()}/{where}{involved['name']}"


def _line(event: Document) -> str:
    words = (event["lastTimestamp"], event["type"], event["reason"], _object(event["involvedObject"]), event["message"])
    return printable("  ".join(words))
