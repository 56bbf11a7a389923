"""What a node measured and which pods it runs: from the files that kubectl prints to one `Snapshot`.

Here too: `--history FILE`, what one call of `decide` remembers for the next.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from jettison.cli.policy.node_source import IMAGE_FILESYSTEMS, STANDARD_INPUT
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import Layout, NodeStats, PodUsage
from jettison.engine.pods.pod import Pod
from jettison.errors import InputError, ManifestError, WriteError
from jettison.manifests.files.plain_files import BYTE_ORDER_MARK, LARGEST_STATE, read_given, read_plain, unreadable
from jettison.manifests.history import SavedHistory, encode_history, parse_history
from jettison.manifests.node_files import LARGEST_LIST, joined, pods_in, summary_in
from jettison.manifests.summary import layout_of
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.values import frozen

LAYOUTS: Mapping[str, Layout] = dict(
    zip(IMAGE_FILESYSTEMS, (Layout(False, False), Layout(True, False), Layout(True, True)), strict=True)
)
LAYOUT_NAMES = {layout: name for name, layout in LAYOUTS.items()}


@frozen
class NodeInput:
    """A node as the files show it. Pods of other nodes and pods that have ended are not in it, only counted."""

    node: NodeStats
    usages: Mapping[str, PodUsage]
    pods: Sequence[Pod]
    notes: Sequence[str]


def shown(path: str) -> str:
    """What a file is called in messages."""
    return "standard input" if path == STANDARD_INPUT else click.format_filename(path)


def read_input(path: str, most: int = LARGEST_LIST) -> bytes:
    """The file, or standard input for `-`."""
    if path != STANDARD_INPUT:
        return read_given(Path(path), most)
    try:
        data = sys.stdin.buffer.read(most + 1)
    except OSError as error:
        raise unreadable(shown(path), error) from error
    if len(data) > most:
        raise ManifestError(f"{shown(path)}: more than {most} bytes")
    return data.removeprefix(BYTE_ORDER_MARK)


def read_summary(path: str) -> tuple[NodeStats, dict[str, PodUsage]]:
    """The summary in a file."""
    return summary_in(read_input(path), shown(path))


def read_node(summary_path: str, pods_path: str) -> NodeInput:
    """Both files joined."""
    node, usages = read_summary(summary_path)
    listed = pods_in(read_input(pods_path), shown(pods_path))
    found = joined(node, usages, listed, shown(pods_path))
    notes = left_out(node.name, found.elsewhere, found.ended)
    if found.unlisted:
        notes.append(f"{_pods(found.unlisted)} of the summary not in {shown(pods_path)}: taken at another time?")
    if listed and not found.pods:
        notes.append(f"no pod in {shown(pods_path)} runs on node `{node.name}`")
    return NodeInput(node, found.usages, found.pods, notes)


def layout_from(name: str, node: NodeStats) -> Layout:
    """The layout of that name; `auto` guesses from the sizes in the summary."""
    return layout_of(node) if name == "auto" else LAYOUTS[name]


def left_out(node: str, elsewhere: int, ended: int) -> list[str]:
    """A note about pods that the node cannot evict, if there are any."""
    said = []
    if elsewhere:
        said.append(f"{elsewhere} of other nodes than `{node}`")
    if ended:
        said.append(f"{ended} that {'has' if ended == 1 else 'have'} ended")
    return [f"left out {_pods(elsewhere + ended)}: {', '.join(said)}"] if said else []


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def load_history(path: str, node: str) -> History:
    """The history in the file; an empty one if there is no file yet. Another node's history is refused."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            # It will be replaced, and root could replace /dev/null.
            raise InputError(f"--history: `{shown(path)}` is not a regular file")
        saved = parse_history(read_plain(Path(path), LARGEST_STATE), shown(path))
    except FileNotFoundError:
        return History()
    except OSError as error:
        raise InputError(f"cannot read `{shown(path)}`: {reason(error)}") from error
    if saved.node and node and saved.node != node:
        raise InputError(f"--history: `{shown(path)}` is about node `{saved.node}`, the summary about `{node}`")
    return saved.history


def save_history(path: str, history: History, node: str) -> None:
    """Atomically: a reader finds the old history or the new one, also after a crash."""
    target = Path(path).resolve()
    temporary: Path | None = None
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(encode_history(SavedHistory(history, node)))
            file.flush()
            os.fsync(descriptor)
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise WriteError(f"cannot write `{shown(path)}`: {reason(error)}") from error
