"""A node of this machine seen from outside: the directory of its state, and its agent if it answers."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import click

from jettison.agent.http.client import Response, fetch
from jettison.agent.http.unix_address import unix_address
from jettison.agent.journal.saved_history import read_history
from jettison.agent.pods import holds
from jettison.agent.pods.holds import read_holds
from jettison.cli.options.host_options import Callback, state_dir_option
from jettison.cli.output import remark
from jettison.engine.node.pressure import History
from jettison.errors import InputError, JettisonError, ManifestError, ObservationError
from jettison.manifests.files.decoding import decode_anything
from jettison.node.card import NodeCard, read_card
from jettison.node.places import default_node_name
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.values import frozen

PATIENCE_SECONDS = 3.0
"""An agent answers within milliseconds, on a starving node perhaps within one second."""

T = TypeVar("T")

# struct ucred: process, user and group.
_PEER = struct.Struct("iII")
_OF_ROOT = Path("/var/lib/jettison")


@frozen
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
    def readmits(self) -> bool:
        """Whether its last agent admits pods again that were evicted; no where that cannot be told."""
        try:
            card = self.card
        except ObservationError:
            return False
        return card is not None and card.readmits

    @property
    def logs_dir(self) -> Path:
        """On nodefs, wherever that is."""
        card = self.card
        return self.directory / ("files" if card is None else card.node_dir) / "logs"

    @property
    def is_live(self) -> bool:
        """Whether its agent listens; one that may not be asked counts as live."""
        return self._listener() is not None

    @property
    def agent_pid(self) -> int:
        """The process of its agent, by the kernel's word: what the agent noted at its start may be the number of
        another process here, where it runs in a container. 0 where there is none, or it cannot be seen.
        """
        return self._listener() or 0

    def _listener(self) -> int | None:
        """None where nothing listens, 0 where it cannot be seen what does."""
        path = self.directory / "agent.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(PATIENCE_SECONDS)
            try:
                with unix_address(path) as address:
                    probe.connect(address)
            except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
                return None
            except OSError:
                return 0
            pid: int = _PEER.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
        return pid

    @property
    def history(self) -> tuple[History, str]:
        """What the agent remembers between two steps; it is on file as soon as it matters.

        A file that is damaged counts as none, with a complaint: the agent does without it, too.
        """
        try:
            saved = read_history(self.directory / "history.json")
        except ObservationError as failure:
            return History(), f"the history cannot be read: {failure}"
        return (History() if saved is None else saved.history), ""

    @property
    def held(self) -> list[str]:
        """`namespace/name` of pods that were deleted by hand, and stay away until their manifest changes.

        None where the file is damaged, with a warning: the next agent starts them.
        """
        try:
            return sorted(read_holds(self.directory / holds.NAME))
        except ManifestError as error:
            remark("warning", f"which pods were deleted by hand cannot be read: {error}")
            return []

    def order(self, path: str, wait_seconds: int = 0, **query: object) -> bytes:
        """Have the agent do something; what it says about it. Raises JettisonError when it does not do it."""
        asked = {name: value for name, value in query.items() if value is not None}
        target = f"/orders/{path}?{urlencode({'wait': wait_seconds, **asked})}"
        answer = self._fetch(target, PATIENCE_SECONDS + wait_seconds, "POST")
        if answer.status != 200:
            raise JettisonError(answer.body.decode(errors="replace").strip().removeprefix("Internal Error: ")[:2000])
        return answer.body

    def _fetch(self, target: str, seconds: float, method: str = "GET") -> Response:
        try:
            return fetch(self.directory / "agent.sock", target, timeout=seconds, method=method)
        except ObservationError as failure:
            if isinstance(failure.__cause__, FileNotFoundError | ConnectionRefusedError):
                raise ObservationError(f"no agent runs for node `{self.name}`") from failure
            raise

    def ask(self, path: str) -> Any:
        """The agent's answer, decoded. Raises ObservationError when there is none."""
        answer = self._fetch(path, PATIENCE_SECONDS)
        text = answer.body.decode(errors="replace").strip()
        if answer.status != 200:
            raise ObservationError(f"the agent of node `{self.name}` says: {text[:500]}")
        if answer.content_type != "application/json":
            return text
        try:
            return decode_anything(answer.body, "answer")
        except ManifestError as error:
            raise ObservationError(f"the agent of node `{self.name}` did not answer with JSON: {error}") from error


def find_nodes(state_dir: Path) -> list[WatchedNode]:
    """All nodes with anything in that directory, by name."""
    nodes = state_dir / "node"
    try:
        return [WatchedNode(path.name, path) for path in sorted(nodes.iterdir()) if path.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ObservationError(f"cannot read `{nodes}`: {reason(error)}") from error


def find_node(state_dir: Path, name: str | None) -> WatchedNode:
    """The node that is meant: by name, or else one whose agent runs: this host's, or the only one."""
    found = find_nodes(state_dir)
    if name is not None or not found:
        return _named(state_dir, found, name or default_node_name())
    return choose_node(found)


def choose_node(found: Sequence[WatchedNode]) -> WatchedNode:
    """One of several, without a name: this host's or the only one, and of those whose agent runs if any does."""
    eligible = choose_nodes(found)
    if len(eligible) > 1:
        names = ", ".join(node.name for node in eligible)
        raise InputError(f"which node is meant? --node-name is one of {names}")
    return eligible[0]


def choose_nodes(found: Sequence[WatchedNode]) -> list[WatchedNode]:
    """The same, but all of them where no rule prefers one."""
    live = [node for node in found if node.is_live]
    eligible = live or list(found)
    own = default_node_name()
    chosen = [node for node in eligible if node.name == own] or eligible
    if live and len(found) > len(live):
        others = ", ".join(node.name for node in found if node not in live)
        names = ", ".join(f"`{node.name}`" for node in chosen)
        which = f"node {names}, whose agent runs" if len(chosen) == 1 else f"nodes {names}, whose agents run"
        remark("note", f"{'this is' if len(chosen) == 1 else 'these are'} {which}; there is also {others}")
    return chosen


def _named(state_dir: Path, found: Sequence[WatchedNode], name: str) -> WatchedNode:
    node = next((node for node in found if node.name == name), None)
    if node is None:
        names = ", ".join(node.name for node in found)
        others = f", there is {names}" if names else f"; `jettison up` makes one{_hint(state_dir)}"
        raise InputError(f"there is no node `{name}` in `{state_dir}`{others}")
    return node


def first_to_know(
    nodes: Sequence[WatchedNode], look: Callable[[WatchedNode], tuple[int, T] | None]
) -> tuple[WatchedNode, T, list[str]] | None:
    """Of the nodes that have an answer the one whose answer has the largest number, and the names of the others."""
    answers = [(answer, node) for node in nodes if (answer := look(node)) is not None]
    if not answers:
        return None
    (_, newest), chosen = max(answers, key=lambda each: each[0][0])
    return chosen, newest, [node.name for _, node in answers if node is not chosen]


def names_of(nodes: Sequence[WatchedNode]) -> str:
    """For messages: `node `a``, or `any of the nodes a, b`."""
    return f"node `{nodes[0].name}`" if len(nodes) == 1 else f"any of the nodes {', '.join(n.name for n in nodes)}"


def _hint(state_dir: Path) -> str:
    if os.geteuid() == 0 or state_dir == _OF_ROOT or not (_OF_ROOT / "node").exists():
        return ""
    return f", and those of root are in `{_OF_ROOT}`"


def watched_node_options(command: Callback) -> Callback:
    """The command gets a `node: WatchedNode`."""

    @wraps(command)
    def found(*arguments: Any, state_dir: Path, node_name: str | None, **options: Any) -> Any:
        return command(*arguments, node=find_node(state_dir, node_name), **options)

    return state_dir_option(_by_name("Which node. [default: this host's, or the only one whose agent runs]")(found))


def watched_nodes_options(command: Callback) -> Callback:
    """The command gets `nodes: Sequence[WatchedNode]`, at least one, to look for a pod in."""

    @wraps(command)
    def found(*arguments: Any, state_dir: Path, node_name: str | None, **options: Any) -> Any:
        nodes = find_nodes(state_dir) if node_name is None else []
        return command(*arguments, nodes=nodes or [find_node(state_dir, node_name)], **options)

    return state_dir_option(_by_name("Which node. [default: the one that knows the pod]")(found))


def all_nodes_options(command: Callback) -> Callback:
    """The command gets `nodes: Sequence[WatchedNode]`: the one that is meant, or all where that cannot be told."""

    @wraps(command)
    def found(*arguments: Any, state_dir: Path, node_name: str | None, **options: Any) -> Any:
        several = find_nodes(state_dir) if node_name is None else []
        nodes = choose_nodes(several) if several else [find_node(state_dir, node_name)]
        return command(*arguments, nodes=nodes, **options)

    text = "Which node. [default: this host's, or all whose agents run]"
    return state_dir_option(_by_name(text)(found))


def _by_name(text: str) -> Callable[[Callback], Callback]:
    return click.option("--node-name", metavar="NAME", help=text)
