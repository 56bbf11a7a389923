"""The recorded Kubernetes API against our own server: TLS, tokens and a durable store, but no controllers.

What needs a disruption controller is played where one runs; `api.py` itself plays everything.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from api import chosen, run_scenario
from api_masking import Mask, differences, like
from api_world import Client

from jettison.apiserver.cluster import Cluster
from jettison.apiserver.connections.endpoint import Endpoint

# A budget's numbers are not asked for, or are written by hand.
_WITHOUT_CONTROLLER = {"pdb-old-api-versions", "pdb-validation", "evict-succeeded-terminating-with-finalizer"}


def _needs_controller(name: str, tags: list[str]) -> bool:
    return "controllers" in tags or ("pdb" in tags and "static" not in tags and name not in _WITHOUT_CONTROLLER)


SCENARIOS = {name: each for name, each in chosen(set(), set()) if not _needs_controller(name, each["tags"])}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    state = tmp_path_factory.mktemp("state")
    ready, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    found: list[Endpoint] = []

    def tell(endpoint: Endpoint) -> None:
        found.append(endpoint)
        ready.set()

    cluster = Cluster(state, Endpoint("127.0.0.1", 0))
    serving = threading.Thread(target=lambda: loop.run_until_complete(cluster.run(stop, tell)))
    serving.start()
    assert ready.wait(30)
    asking = Client(found[0].url, _token(state), str(_authority(state)))
    yield asking
    asking.close()
    loop.call_soon_threadsafe(stop.set)
    serving.join(30)
    loop.close()


def _authority(state: Path) -> Path:
    (found,) = (state / "cluster" / "pki").glob("ca.crt")
    return found


def _token(state: Path) -> str:
    found: dict[str, Any] = msgspec.json.decode((state / "cluster" / "tokens.json").read_bytes())
    return next(str(each["token"]) for each in found["tokens"] if each["role"] == "admin")


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_answers_are_kubernetes_own(client: Client, name: str) -> None:
    findings = run_scenario(client, name, SCENARIOS[name])
    assert not findings, "\n".join(map(str, findings))


def test_there_is_something_to_play() -> None:
    assert len(SCENARIOS) > 35


def test_a_difference_is_found() -> None:
    """The comparison forgives names and times, and nothing else."""
    mask = Mask("oracle1")
    answer = {"metadata": {"name": "oracle1-x", "uid": "0" * 8 + "-0000-0000-0000-" + "0" * 12}, "spec": {"n": 1}}
    recorded = {"metadata.name": "<ns>-x", "metadata.uid": "<uid>", "spec.n": 2, "spec.m": "<absent>"}
    found = differences(recorded, like(recorded, mask.value(answer)))
    assert found == [(".spec.n", 2, 1)]
