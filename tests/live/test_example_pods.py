"""The example pods run as their comments say; and one that holds too much is evicted with the amounts told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.cli.guarded import Guarded, pod, shell
from tests.cli.running import EXAMPLES

PODS = EXAMPLES / "pods"
NODE = ("--eviction-hard", "memory.available<32Mi", "--node-memory", "1Gi")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: one of the pods drops capabilities")


@pytest.fixture(scope="module")
def node() -> Iterator[Guarded]:
    with TemporaryDirectory(prefix="jettison-examples-") as directory:
        guarded = Guarded(Path(directory), NODE)
        for path in PODS.glob("*.yaml"):
            shutil.copy(path, guarded.manifests)
        guarded.up()
        try:
            yield guarded
        finally:
            guarded.stop()


def pods(node: Guarded) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in node.ask("/pods")["items"]}


def phase(node: Guarded, name: str) -> str:
    status = pods(node).get(name, {"status": {"phase": ""}})["status"]
    return str(status.get("reason") or status["phase"])


def is_ready(node: Guarded, name: str) -> bool:
    conditions = pods(node)[name]["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def runs_well(node: Guarded, name: str) -> bool:
    return phase(node, name) == "Running" and is_ready(node, name)


def test_every_example_runs(node: Guarded) -> None:
    names = {"web", "worker", "report", "agent", "database", "site", "cache"}
    node.wait(lambda: names <= pods(node).keys(), "all examples")
    for name in sorted(names - {"report"}):
        node.wait(partial(runs_well, node, name), f"{name} to be ready", 60)
    node.wait(lambda: phase(node, "report") == "Succeeded", "the batch job to end", 60)
    classes = {name: each["status"]["qosClass"] for name, each in pods(node).items()}
    assert (classes["worker"], classes["report"], classes["web"]) == ("Guaranteed", "BestEffort", "Burstable")
    assert node.here("logs", "report").stdout == "100000\n"
    assert node.here("logs", "site", "-c", "main").stdout == "<h1>hello</h1>\n"


def test_the_documents_show_them() -> None:
    root = EXAMPLES.parents[1]
    for document in (root / "README.md", root / "docs" / "host.md"):
        text = document.read_text()
        assert "examples/pods" in text
    named = (root / "docs" / "host.md").read_text()
    assert all(f"`{path.name}`" in named or f"[`{path.name}`]" in named for path in PODS.glob("*.yaml"))


def test_why_tells_how_much_storage_was_held(node: Guarded) -> None:
    hog = shell("main", "head -c 5000000 /dev/zero > data/block; sleep 600")
    hog["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    node.write(pod("hog", hog, volumes=[{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]))
    node.wait(lambda: phase(node, "hog") == "Evicted", "the eviction", 60)

    why = node.here("why", "hog").stdout

    assert "because   it held more local storage than it may" in why
    assert "held      emptyDir `data` had 4.8Mi, 3.8Mi over its limit of 1Mi" in why


def test_metrics_tell_what_pods_use(node: Guarded) -> None:
    node.wait(lambda: b'pod_memory_working_set_bytes{namespace="default",pod="web"}' in node.metrics(), "the web's")
    text = node.metrics().decode()
    assert 'jettison_threshold{signal="memory.available",type="hard"} 33554432' in text
    assert 'jettison_pod_ephemeral_storage_bytes{namespace="default",pod="cache"}' in text
