"""A thread that plays the node `n1` for tests with clients: what is bound becomes Ready, what is to go goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.live.served import Served

_ROUND_SECONDS = 0.1


@contextmanager
def played_node(server: Served) -> Iterator[None]:
    """During the body."""
    assert server.call("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})[0] == 201
    ready = {"type": "Ready", "status": "True"}
    room = {"pods": "110", "cpu": "4", "memory": "8Gi"}
    status = {"conditions": [ready], "capacity": room, "allocatable": room}
    assert server.call("PUT", "/api/v1/nodes/n1/status", {"metadata": {"name": "n1"}, "status": status})[0] == 200
    # A new node is not ready until its lifecycle controller has seen that it is, and not every test runs that.
    node = server.call("GET", "/api/v1/nodes/n1")[1]
    assert server.call("PUT", "/api/v1/nodes/n1", {**node, "spec": {**node["spec"], "taints": []}})[0] == 200
    stop = threading.Event()
    playing = threading.Thread(target=_play, args=(server, stop))
    playing.start()
    try:
        yield
    finally:
        stop.set()
        playing.join()


def _play(server: Served, stop: threading.Event) -> None:
    while not stop.wait(_ROUND_SECONDS):
        for pod in server.call("GET", "/api/v1/pods")[1]["items"]:
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            if "deletionTimestamp" in metadata:
                server.call("DELETE", f"{path}?gracePeriodSeconds=0")
            elif pod["status"]["phase"] == "Pending" and _starts(pod):
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
                # 409: it is being deleted just now, and the next round sees that.
                server.call("PUT", f"{path}/status", {**pod, "status": {"phase": "Running", "conditions": [ready]}})


def _starts(pod: Any) -> bool:
    return bool(pod["spec"].get("nodeName")) and "broken" not in pod["spec"]["containers"][0]["image"]


def until(look: Callable[[], Any]) -> Any:
    """What `look` gives as soon as that is true."""
    end = time.monotonic() + 30
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.1)
    assert found
    return found
