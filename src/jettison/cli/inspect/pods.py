"""`jettison pods`: the pods of a node and how each of them is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from jettison.apiserver.objects.cells import UNKNOWN, pod_cells
from jettison.cli.inspect.recorded_pods import known_pods, prospect, read_records
from jettison.cli.inspect.watched_node import WatchedNode, all_nodes_options
from jettison.cli.output import NOTHING, TABLE, output_option, print_document, remark, table
from jettison.runtimes.host.pods.records import PodRecord

# Named in one note; all of them are in the table.
_MOST_NAMES = 5
_HEAD = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "QOS", "PRIORITY")


@click.command()
@click.option("-n", "--namespace", metavar="NAME", help="Only the pods of this namespace.")
@output_option
@all_nodes_options
def command(nodes: Sequence[WatchedNode], namespace: str | None, output: str) -> None:
    """Show the pods of a node, also those that have ended, as `kubectl get pods` does.

    Of several nodes of this machine all are shown, with a column that says which, unless --node-name chooses one. With
    -o json and -o yaml the answer is a v1 PodList, which `jettison rank --pods` takes. Without an agent it comes from
    the node's records.
    """
    found = {node.name: _items(node, namespace, output) for node in nodes}
    if output != TABLE:
        items = [item for each in found.values() for item in each]
        print_document(output, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
    elif any(found.values()):
        records = {node.name: read_records(node.records) for node in nodes}
        click.echo(_table(found, records))
        for node in nodes:
            for text, names in _prospects(node, found[node.name], records[node.name]).items():
                more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
                remark("note", f"{', '.join(names[:_MOST_NAMES])}{more}: {text}")
    else:
        remark("note", f"there are no pods in namespace `{namespace}`" if namespace else "there are no pods")


def _items(node: WatchedNode, namespace: str | None, output: str) -> list[Mapping[str, Any]]:
    found = known_pods(node)
    if found.note:
        remark("note", found.note)
    held = [each for each in node.held if namespace in (None, each.partition("/")[0])]
    if held and output == TABLE:
        remark("note", f"deleted by hand, and held until `jettison restart`: {', '.join(held)}")
    return [item for item in found.items if namespace in (None, item["metadata"]["namespace"])]


def _prospects(
    node: WatchedNode, items: Iterable[Mapping[str, Any]], records: Iterable[PodRecord]
) -> dict[str, list[str]]:
    """When and how pods come back that were evicted or not let in; the names of the pods by what there is to say."""
    readmits = node.readmits
    by_uid = {record.uid: record for record in records}
    found: dict[str, list[str]] = {}
    for item in items:
        metadata = item["metadata"]
        record = by_uid.get(metadata["uid"])
        if record is not None and (text := prospect(record, readmits=readmits)):
            found.setdefault(text, []).append(f"{metadata['namespace']}/{metadata['name']}")
    return found


def _endings(records: Iterable[PodRecord]) -> dict[str, str]:
    """What the status of pods on their way out is called; a pod's document does not tell, its record does."""
    return {
        record.uid: "Terminating" if record.ending.order is None else "Evicting"
        for record in records
        if record.ending is not None and record.verdict is None
    }


def _table(found: Mapping[str, Iterable[Mapping[str, Any]]], records: Mapping[str, Iterable[PodRecord]]) -> str:
    """By node, which is a column where there are several."""
    now_ns = time.time_ns()
    rows = [(node, *_row(item, _endings(records[node]), now_ns)) for node, items in found.items() for item in items]
    if len(found) > 1:
        return table(("NODE", *_HEAD), rows, right=("PRIORITY",))
    return table(_HEAD, (row[1:] for row in rows), right=("PRIORITY",))


def _row(item: Mapping[str, Any], endings: Mapping[str, str], now_ns: int) -> tuple[str, ...]:
    metadata, status = item["metadata"], item["status"]
    priority = (item.get("spec") or {}).get("priority") or 0
    # Manifests from files have no time of creation, and nothing is waited for between that and the start.
    dated = {"creationTimestamp": status.get("startTime"), **metadata}
    name, ready, state, restarts, age, *_ = map(str, pod_cells({**item, "metadata": dated}, now_ns))
    # kubectl prefers the state of a container, and calls an evicted pod `Error`.
    state = endings.get(metadata["uid"]) or status.get("reason") or state
    age = NOTHING if age == UNKNOWN else age
    return metadata["namespace"], name, ready, state, restarts, age, status["qosClass"], str(priority)
