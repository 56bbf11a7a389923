"""containerd's own interface: answers that are none, names that are none, and containers that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.errors import PodGone, RuntimeFailure, StillRunning
from jettison.runtimes.containerd.client import MESSAGES
from jettison.runtimes.containerd.workloads import ContainerdWorkloads
from jettison.runtimes.grpc.wire import WireError, decode, encode
from jettison.runtimes.linux.cgroups.mounts import Hierarchy
from jettison.runtimes.workloads import AdoptedWorkload
from tests.runtimes.grpc.test_channel import Serve, framed, grpc, serving

T = TypeVar("T")
NOWHERE = Hierarchy(Path("/nonexistent"), "/", frozenset({"memory"}), is_unified=False)


def converse(path: Path, serve: Serve, ask: Callable[[ContainerdWorkloads], Awaitable[T]]) -> T:
    async def run() -> T:
        async with serving(path, serve):
            source = ContainerdWorkloads(path, NOWHERE, has_pods=True)
            try:
                return await ask(source)
            finally:
                source.close()

    return asyncio.run(run())


@given(st.sampled_from(sorted(MESSAGES)), st.binary(max_size=100))
def test_any_bytes_are_a_message_or_refused(name: str, data: bytes) -> None:
    try:
        found = decode(MESSAGES, name, data)
    except WireError:
        return
    assert found.keys() == {field.name for field in MESSAGES[name]}


def test_an_answer_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="cannot be read"):
        converse(tmp_path / "s", grpc(framed(b"\xff\xff")), lambda source: source.running())


@pytest.mark.parametrize("name", ["k8s.io", "moby", "a\r\nx: y", "x" * 100, "", "é"])
def test_namespaces_of_others_and_names_that_are_none_are_left_out(tmp_path: Path, name: str) -> None:
    """Every call gets this answer, so that a namespace that was asked about would have it as its tasks."""
    answer = encode(MESSAGES, "ListNamespacesResponse", {"namespaces": [{"name": name}]})
    assert converse(tmp_path / "s", grpc(framed(answer)), lambda source: source.running()) == []


def test_a_container_that_was_never_found_is_gone(tmp_path: Path) -> None:
    workload = AdoptedWorkload("containerd", "ns.a", "a", "x/a")
    with pytest.raises((PodGone, StillRunning)):
        converse(tmp_path / "s", grpc(framed(b"")), lambda source: source.stop(workload, 1))
