"""Operators written with the official client and with lightkube (`operators.py`) run unchanged against our API."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.operators import LABEL
from tests.live.served import Served

pytestmark = pytest.mark.timeout(300)

OPERATORS = Path(__file__).with_name("operators.py")
PATIENCE_SECONDS = 60.0


@pytest.fixture
def namespace(served: Served) -> str:
    name = f"o{time.monotonic_ns()}"
    assert served.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    return name


@pytest.mark.parametrize("label", ["official", "light"])
def test_an_operator_runs_unchanged(served: Served, namespace: str, label: str) -> None:
    command = [sys.executable, str(OPERATORS), label, str(served.kubeconfig()), namespace]
    with subprocess.Popen(command) as process:
        try:
            _play(served, namespace, label)
            assert process.poll() is None
        finally:
            process.kill()


def _play(served: Served, namespace: str, label: str) -> None:
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{label}"
    _until(lambda: served.call("GET", lease)[0] == 200)
    texts = f"/api/v1/namespaces/{namespace}/configmaps"
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    data = {"image": "registry.example/a:1", "replicas": "2"}
    made = {"metadata": {"name": "app", "labels": {LABEL: label}}, "data": data}
    assert served.call("POST", texts, made)[0] == 201

    def deployed(replicas: int) -> Callable[[], bool]:
        return lambda: served.call("GET", f"{deployments}/app")[1].get("spec", {}).get("replicas") == replicas

    _until(deployed(2))
    found = served.call("GET", f"{deployments}/app")[1]
    (entry,) = found["metadata"]["managedFields"]
    assert (entry["operation"], entry["manager"]) == ("Apply", f"{label}-operator")
    # A change, which the operator sees; then one of another client, which it takes back with its next apply.
    _change(served, f"{texts}/app", "data", "replicas", "3")
    _until(deployed(3))
    _change(served, f"{deployments}/app", "spec", "replicas", 9)
    _change(served, f"{texts}/app", "data", "replicas", "4")
    _until(deployed(4))
    # It is held until the operator has cleaned up.
    assert served.call("DELETE", f"{texts}/app")[0] == 200
    _until(lambda: served.call("GET", f"{texts}/app")[0] == 404)
    assert served.call("GET", f"{deployments}/app")[0] == 404


def _change(served: Served, path: str, part: str, key: str, value: Any) -> None:
    """As a client that reads, changes and writes; the operator may write between."""
    while True:
        found = served.call("GET", path)[1]
        found[part][key] = value
        code, answer = served.call("PUT", path, found)
        if code == 200:
            return
        assert code == 409, answer


def _until(look: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < end
        time.sleep(0.05)
