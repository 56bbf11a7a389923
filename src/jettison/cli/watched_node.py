"""A node of this machine seen from outside: where its state lies, and its agent, if that answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from jettison.agent.http_client import fetch
from jettison.agent.recorder import read_history
from jettison.cli.host_options import Callback, default_node_name, state_dir_option
from jettison.cli.node_card import NodeCard, read_card
from jettison.engine.history import History
from jettison.errors import ActionFailed, InputError, ManifestError, ObservationFailed
from jettison.manifests.decoding import decode_anything
from jettison.runtimes.linux.kernel_files import reason

PATIENCE_SECONDS = 3.0
"""An agent answers within milliseconds, on a starving node perhaps within one second."""

_OF_ROOT = Path("/var/lib/jettison")


@dataclass(frozen=True, slots=True)
class WatchedNode:
    """`directory` is the node's own in the state directory."""

    name: str
    directory: Path

    @property
    def journal(self) -> Path:
        """Why pods were evicted."""
        return self.directory / "journal"

    @property
    def records(self) -> Path:
        """One file per pod."""
        return self.directory / "pods"

    @property
    def card(self) -> NodeCard | None:
        """What its last agent left for us."""
        return read_card(self.directory)

    @property
    def logs_dir(self) -> Path:
        """On nodefs, wherever that is."""
        card = self.card
        return self.directory / ("files" if card is None else card.node_dir) / "logs"

    @property
    def history(self) -> History:
        """What the agent remembers between two steps; it is on file as soon as it matters."""
        try:
            return read_history(self.directory / "history.json") or History()
        except ActionFailed as error:
            raise ObservationFailed(str(error)) from error

    def ask(self, path: str) -> Any:
        """The agent's answer, decoded. Raises ObservationFailed when there is none."""
        try:
            answer = fetch(self.directory / "agent.sock", path, timeout=PATIENCE_SECONDS)
        except ObservationFailed as failure:
            if isinstance(failure.__cause__, FileNotFoundError | ConnectionRefusedError):
                raise ObservationFailed(f"no agent runs for node `{self.name}`") from failure
            raise
        text = answer.body.decode(errors="replace").strip()
        if answer.status != 200:
            raise ObservationFailed(f"the agent of node `{self.name}` says: {text[:500]}")
        if answer.content_type != "application/json":
            return text
        try:
            return decode_anything(answer.body, "answer")
        except ManifestError as error:
            raise ObservationFailed(f"the agent of node `{self.name}` did not answer with JSON: {error}") from error


def find_node(state_dir: Path, name: str | None) -> WatchedNode:
    """The node that is meant: by name, or this host's, or the only one there is."""
    nodes = state_dir / "node"
    try:
        found = sorted(path.name for path in nodes.iterdir() if path.is_dir())
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise ObservationFailed(f"cannot read `{nodes}`: {reason(error)}") from error
    if name is None:
        own = default_node_name()
        name = own if own in found or len(found) != 1 else found[0]
        if name not in found and found:
            raise InputError(f"which node is meant? --node-name is one of {', '.join(found)}")
    if name not in found:
        others = f", there is {', '.join(found)}" if found else f"; `jettison up` makes one{_hint(state_dir)}"
        raise InputError(f"there is no node `{name}` in `{state_dir}`{others}")
    return WatchedNode(name, nodes / name)


def _hint(state_dir: Path) -> str:
    if os.geteuid() == 0 or state_dir == _OF_ROOT or not (_OF_ROOT / "node").exists():
        return ""
    return f", and those of root are in `{_OF_ROOT}`"


def watched_node_options(command: Callback) -> Callback:
    """The command gets a `node: WatchedNode`."""

    @wraps(command)
    def found(*arguments: Any, state_dir: Path, node_name: str | None, **options: Any) -> Any:
        return command(*arguments, node=find_node(state_dir, node_name), **options)

    by_name: Callable[[Callback], Callback] = click.option(
        "--node-name", metavar="NAME", help="Which node. [default: this host's, or the only one there is]"
    )
    return state_dir_option(by_name(found))
