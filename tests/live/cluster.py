"""A real cluster for live tests: `jettison up --nodes` in a process, with directories and cgroups of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jettison.cli.inspect.recorded_pods import read_records
from tests.janitor import fresh_name
from tests.live.quick_start import Process, jettison
from tests.live.served import Served, announced_port

Json = dict[str, Any]
T = TypeVar("T")

PODS = "/api/v1/namespaces/default/pods"
_STOP_SECONDS = 60
_OWNERS = (
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/replicasets",
    PODS,
)


@dataclass
class LiveCluster:
    """One `jettison up --nodes`. It keeps its port, so that it can be killed and started again."""

    directory: Path
    flags: Sequence[str] = ()
    count: int = 2
    port: int = 0
    process: Process | None = None

    def __post_init__(self) -> None:
        self.name = fresh_name()
        self.state = self.directory / "state"
        self.log = self.directory / "log"

    @property
    def nodes(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(1, self.count + 1)]

    @property
    def served(self) -> Served:
        assert self.process is not None
        return Served(self.state, self.process, self.port)

    @property
    def processes(self) -> tuple[int, int]:
        """That of the nodes, which has pods as children, too, and that of the API."""
        assert self.process is not None
        guard = self.process.pid
        children = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        (api,) = (int(each) for each in children if Path(f"/proc/{each}/comm").read_text() == "api-server\n")
        return guard, api

    def start(self) -> None:
        """And wait until the API answers."""
        words = ["up", "--nodes", str(self.count), "--state-dir", str(self.state), "--node-name", self.name]
        with self.log.open("a") as log:
            self.process = jettison([*words, "--listen", f"127.0.0.1:{self.port}", *self.flags], log)
        self.port = announced_port(self.process, self.log)

    def kill(self) -> None:
        """SIGKILL, as a crash would. The API goes with its nodes, and has the state directory till then."""
        assert self.process is not None
        _, api = self.processes
        self.process.kill()
        self.ended()
        self.wait(lambda: not Path(f"/proc/{api}").exists(), "the API to go with its nodes")

    def stop(self) -> None:
        """End everything that runs, then the cluster, and the cluster in any case."""
        if self.process is None:
            self.start()
        try:
            for path in _OWNERS:
                for each in self.get(path)["items"]:
                    self.served.call("DELETE", f"{path}/{each['metadata']['name']}")
            self.wait(lambda: not self.get(PODS)["items"], "the pods to go", seconds=60)
            self.wait(lambda: not any(map(self.records, self.nodes)), "the nodes to be empty", seconds=60)
        finally:
            assert self.process is not None
            self.process.send_signal(signal.SIGTERM)
            self.ended()

    def ended(self) -> int:
        """Its exit code, once it has one."""
        assert self.process is not None
        code = self.process.wait(_STOP_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        return code

    def get(self, path: str) -> Json:
        code, found = self.served.call("GET", path)
        assert code == 200, found
        assert isinstance(found, dict)
        return found

    def find(self, path: str) -> Json:
        """Nothing where there is none."""
        code, found = self.served.call("GET", path)
        assert code in (200, 404), found
        return found if code == 200 else {}

    def ready(self, path: str) -> Json:
        """A node or a pod, once it is ready."""

        def look() -> Json:
            found = self.find(path)
            return found if is_ready(found) else {}

        return self.wait(look, f"{path} to be ready")

    def gone(self, path: str) -> None:
        """Once there is no such thing any more."""
        self.wait(lambda: not self.find(path), f"{path} to go")

    def create(self, path: str, document: Json) -> Json:
        code, found = self.served.call("POST", path, document)
        assert code == 201, found
        assert isinstance(found, dict)
        return found

    def pod(self, name: str) -> Json:
        return self.get(f"{PODS}/{name}")

    def pods(self) -> list[Json]:
        items: list[Json] = self.get(PODS)["items"]
        return items

    def records(self, node: str) -> dict[str, list[int]]:
        """The pods that the node has on disk, with the processes that they say they have."""
        found = read_records(self.state / "node" / node / "pods")
        names = {each.uid: str(each.document["metadata"]["name"]) for each in found}
        return {names[each.uid]: [one.pid for one in each.containers if one.pid] for each in found}

    def wait(self, look: Callable[[], T], what: str, seconds: float = 90) -> T:
        """What `look` gives as soon as it is true; with the log when it does not become so."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s for {what}\n{self.log.read_text()[-6000:]}")
            time.sleep(0.05)
        return found


def is_ready(document: Json) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def pod(name: str, command: Sequence[str], node: str = "", **spec: Any) -> Json:
    """A pod with one container; without a node the scheduler finds one."""
    container = {"name": "main", "image": "registry.example/none:1", "command": list(command)}
    where = {"nodeName": node} if node else {}
    whole = {"terminationGracePeriodSeconds": 1, "containers": [container | spec.pop("container", {})], **where, **spec}
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": whole}
