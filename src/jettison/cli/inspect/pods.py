"""`jettison pods`: the pods of a node and how each of them is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import click

from jettison.apiserver.objects.cells import UNKNOWN, pod_cells
from jettison.cli.inspect.recorded_pods import known_pods, prospect, read_records
from jettison.cli.inspect.watched_node import WatchedNode, watched_node_options
from jettison.cli.output import NOTHING, TABLE, output_option, print_document, remark, table
from jettison.runtimes.host.pods.records import PodRecord

# Named in one note; all of them are in the table.
_MOST_NAMES = 5
_HEAD = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "QOS", "PRIORITY")


@click.command()
@click.option("-n", "--namespace", metavar="NAME", help="Only the pods of this namespace.")
@output_option
@watched_node_options
def command(node: WatchedNode, namespace: str | None, output: str) -> None:
    """Show the pods of a node, also those that have ended, as `kubectl get pods` does.

    With -o json and -o yaml the answer is a v1 PodList, which `jettison rank --pods` takes. Without an agent it comes
    from the node's records.
    """
    found = known_pods(node)
    if found.note:
        remark("note", found.note)
    held = [each for each in node.held if namespace in (None, each.partition("/")[0])]
    if held and output == TABLE:
        remark("note", f"deleted by hand, and held until `jettison restart`: {', '.join(held)}")
    items = [item for item in found.items if namespace in (None, item["metadata"]["namespace"])]
    if output != TABLE:
        print_document(output, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
    elif items:
        records = read_records(node.records)
        click.echo(_table(items, _endings(records)))
        for text, names in _prospects(node, items, records).items():
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            remark("note", f"{', '.join(names[:_MOST_NAMES])}{more}: {text}")
    else:
        remark("note", f"there are no pods in namespace `{namespace}`" if namespace else "there are no pods")


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


def _table(items: Iterable[Mapping[str, Any]], endings: Mapping[str, str]) -> str:
    now_ns = time.time_ns()
    return table(_HEAD, (_row(item, endings, now_ns) for item in items), right=("PRIORITY",))


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
