"""kill -9 of the server at any moment of a write load: what was acknowledged is there, and no eviction by half."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from tests.attacks.tally import Tally
from tests.live.served import Served, end, start

WRITERS = 4
ALLOWED = 10_000

_CREATED, _RUNNING, _EVICTED = range(3)
_CONDITION = "DisruptionTarget"
# Of the kills, so many come while the server is still starting, which is when it reads what the last one left.
_EARLY_SHARE = 0.2
_LONGEST_START = 0.5
# Pods made before the kill, then seconds: by the clock alone a slow machine would be killed before it wrote anything.
_MOST_PODS, _LONGEST_PAUSE = 24, 0.01
_PATIENCE = 30.0


@dataclass(slots=True)
class Writer:
    """Makes pods, has them run and evicts them, one after another, until the server answers no more."""

    served: Served
    namespace: str
    number: int
    # How far each pod had come by what the server said.
    acknowledged: dict[str, int] = field(default_factory=dict)
    newest: int = 0
    refused: list[tuple[int, Any]] = field(default_factory=list)

    def work(self) -> None:
        connection = self.served.connect()
        token = self.served.token()
        base = f"/api/v1/namespaces/{self.namespace}/pods"
        try:
            for turn in range(10_000):
                name = f"pod-{self.number}-{turn}"
                self._ask(connection, token, "POST", base, _pod(name))
                self.acknowledged[name] = _CREATED
                self._ask(connection, token, "PATCH", f"{base}/{name}/status", _STATUS)
                self.acknowledged[name] = _RUNNING
                eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
                self._ask(connection, token, "POST", f"{base}/{name}/eviction", eviction)
                self.acknowledged[name] = _EVICTED
        except (OSError, HTTPException):
            return  # it was killed
        finally:
            connection.close()

    def _ask(self, connection: HTTPSConnection, token: str, method: str, path: str, body: object) -> None:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        connection.request(method, path, json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status >= 300:
            self.refused.append((response.status, answer))
            raise HTTPException("refused")
        self.newest = max(self.newest, int(answer["metadata"].get("resourceVersion") or 0))


def _pod(name: str) -> Any:
    container = {"name": "main", "image": "registry.example/app:1"}
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"nodeName": "n1", "containers": [container]}}


_STATUS = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def _open(served: Served, namespace: str) -> None:
    """A namespace with a budget that lets every pod go; no controller is there to count."""
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    assert served.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    code, budget = served.call("POST", budgets, {"metadata": {"name": "web"}, "spec": spec})
    assert code == 201, budget
    counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 0)
    status = {**counts, "disruptionsAllowed": ALLOWED, "observedGeneration": 1}
    code, answer = served.call("PUT", f"{budgets}/web/status", {**budget, "status": status})
    assert code == 200, answer


def _check(tally: Tally, served: Served, namespace: str, acknowledged: dict[str, int], newest: int) -> None:
    _, listing = served.call("GET", f"/api/v1/namespaces/{namespace}/pods")
    _, budget = served.call("GET", f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web")
    version = int(listing["metadata"]["resourceVersion"])
    tally.check(version >= newest, f"{namespace}: version {newest} was acknowledged, {version} is stored")
    pods = {each["metadata"]["name"]: each for each in listing["items"]}
    disrupted = (budget["status"].get("disruptedPods") or {}).keys()
    tally.check(
        budget["status"]["disruptionsAllowed"] == ALLOWED - len(disrupted), f"{namespace}: wrong count: {budget}"
    )
    for name, pod in pods.items():
        marks = {
            "deletionTimestamp" in pod["metadata"],
            any(each["type"] == _CONDITION for each in pod["status"].get("conditions") or ()),
            name in disrupted,
        }
        tally.check(len(marks) == 1, f"half an eviction: {pod}")
    for name, state in acknowledged.items():
        tally.check(name in pods, f"{namespace}/{name}: an acknowledged pod is lost")
        if name in pods:
            phase = pods[name]["status"]["phase"]
            tally.check(state < _RUNNING or phase == "Running", f"{namespace}/{name}: an acknowledged status is lost")
            tally.check(state < _EVICTED or name in disrupted, f"{namespace}/{name}: an acknowledged eviction is lost")


def _load(served: Served, namespace: str, pods: int, seconds: float) -> list[Writer]:
    """All write, and the server dies in the middle of it, so many pods and seconds later."""
    writers = [Writer(served, namespace, number) for number in range(WRITERS)]
    threads = [threading.Thread(target=writer.work) for writer in writers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _PATIENCE
    while sum(len(writer.acknowledged) for writer in writers) < pods and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)
    end(served.process, signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert [writer.refused for writer in writers] == [[]] * WRITERS
    return writers


def _kill_while_starting(folder: Path, seconds: float) -> None:
    command = (sys.executable, "-m", "jettison", "serve", "--state-dir", folder, "--listen", "127.0.0.1:0")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        process.kill()


def kill_under_load(folder: Path, seed: int, kills: int) -> Tally:
    """Every acknowledged write survives, and an eviction is there as a whole or not at all."""
    tally = Tally("server kills", kills)
    moment = random.Random(seed)
    rounds: dict[str, tuple[dict[str, int], int]] = {}
    served = start(folder, "--controllers=-")
    try:
        for number in range(kills):
            if moment.random() < _EARLY_SHARE:
                end(served.process, signal.SIGTERM)
                _kill_while_starting(folder, moment.uniform(0, _LONGEST_START))
                tally.seen["kills while starting"] += 1
            else:
                namespace = f"round-{number}"
                _open(served, namespace)
                writers = _load(served, namespace, moment.randint(0, _MOST_PODS), moment.uniform(0, _LONGEST_PAUSE))
                merged = {name: state for writer in writers for name, state in writer.acknowledged.items()}
                rounds[namespace] = merged, max(writer.newest for writer in writers)
                tally.seen["pods acknowledged"] += len(merged)
            served = start(folder, "--controllers=-")
            for namespace in list(rounds)[-1:]:
                _check(tally, served, namespace, *rounds[namespace])
        for namespace, (acknowledged, newest) in rounds.items():
            _check(tally, served, namespace, acknowledged, newest)
    finally:
        end(served.process, signal.SIGKILL)
    return tally
