"""Which processes `jettison down` waits for."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.cli.host import ordering
from jettison.cli.inspect.watched_node import WatchedNode, find_nodes
from jettison.node.card import NAME, NodeCard, write_card


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[WatchedNode]]:
    """Two of this process; both say that they are process 1, as agents in a container do."""
    listeners = []
    for name in ("n1", "n2"):
        directory = tmp_path / "node" / name
        directory.mkdir(parents=True)
        write_card(directory, NodeCard("files", 1, 0, is_member=True))
        listener = socket.socket(socket.AF_UNIX)
        listeners.append(listener)
        listener.bind(str(directory / "agent.sock"))
        listener.listen()
    yield find_nodes(tmp_path)
    for listener in listeners:
        listener.close()


def test_it_is_the_one_that_listens_whatever_number_it_has_noted(nodes: list[WatchedNode]) -> None:
    """Process 1 of the machine never ends: `down` waited for it for ten minutes."""
    assert [each.agent_pid for each in nodes] == [os.getpid()] * 2
    assert ordering._fellows(nodes) == nodes
    (descriptor,) = ordering._processes(nodes)
    own = os.pidfd_open(os.getpid())
    try:
        assert _shown(descriptor) == _shown(own)
    finally:
        os.close(descriptor)
        os.close(own)


def test_a_damaged_note_keeps_no_node_up(nodes: list[WatchedNode]) -> None:
    for each in nodes:
        (each.directory / NAME).write_text("{")
    assert ordering._fellows(nodes) == nodes
    assert ordering._processes(nodes) == []


def _shown(descriptor: int) -> str:
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(line for line in lines if line.startswith("Pid:"))
