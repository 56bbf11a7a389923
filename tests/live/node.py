"""A real node for live tests: `jettison up` in a process of its own, with directories and cgroups of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from jettison.agent.http.client import fetch
from jettison.agent.journal.explanations import explain
from jettison.agent.journal.reading import PodQuery, Record, read_journal
from jettison.agent.journal.stories import story_of
from jettison.errors import ObservationError
from tests.janitor import fresh_name
from tests.live.quick_start import Process, jettison

MI = 2**20
# Not that of a virtual environment, which may lie below /tmp: pods have one of their own.
PYTHON = str(Path(sys.executable).resolve())
HOLD = "import time; held = bytearray(b'x') * ({mebibytes} << 20); time.sleep(36000)"
GROW = "import time; held = []\nwhile True: held.append(bytearray(b'x') * (1 << 20)); time.sleep({pause})"


def python(program: str) -> list[str]:
    """A container's command that runs Python code."""
    return [PYTHON, "-c", program]


def pod(name: str, command: Sequence[str], *, memory: str | None = None, **spec: Any) -> dict[str, Any]:
    """A pod with one container; `memory` is its request."""
    resources = {"requests": {"memory": memory}} if memory else {}
    container = {"name": "main", "command": list(command), "resources": resources, **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


@dataclass
class LiveNode:
    """One `jettison up`. Everything it makes is below `directory` or in its own cgroup."""

    directory: Path
    flags: Sequence[str] = ()
    name: str = ""
    process: Process | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    # Another program than the one that is installed.
    launcher: Sequence[str] = ()
    # From a process that has loaded all, with a ninth of the processor time. Not where the start or the memory of the
    # agent is what is tested.
    starts_quickly: bool = True
    # What is wrong with it, in the words of `faulty_agent`.
    fault: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or fresh_name()
        self.manifests = self.directory / "manifests"
        self.manifests.mkdir(exist_ok=True)
        self.log = self.directory / "log"
        self.state = self.directory / "state"

    def write(self, *pods: Mapping[str, Any]) -> None:
        """Want these pods, too."""
        for each in pods:
            path = self.manifests / f"{each['metadata']['name']}.json"
            path.with_suffix(".new").write_text(json.dumps(each))
            path.with_suffix(".new").rename(path)

    def start(self) -> None:
        """Run the agent."""
        config = self.directory / "kubelet.json"
        document = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **self.config}
        config.write_text(json.dumps(document))
        # As it is installed: with -m Python loads 0.4 MB to find out what to run, and keeps it.
        program = str(Path(sys.executable).with_name("jettison"))
        words = ["up", "--state-dir", str(self.state), "--node-name", self.name, "--manifests", str(self.manifests)]
        words += ["--config", str(config), *self.flags]
        with self.log.open("ab") as log:
            if self.starts_quickly and not self.launcher:
                self.process = jettison(words, log, is_heard=False, fault=self.fault)
                return
            command = [*(self.launcher or [program]), *words]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """End every pod, then the agent."""
        for path in self.manifests.iterdir():
            path.unlink()
        if self.process is None:
            self.start()
        self.wait(lambda: not self.records(), "the pods to go", seconds=60)
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.process = None

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What `jettison` answers, asked about this node."""
        program = str(Path(sys.executable).with_name("jettison"))
        options = ["--state-dir", str(self.state), "--node-name", self.name]
        talks: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60}
        return subprocess.run([program, words[0], *options, *words[1:]], check=False, **talks)

    def records(self) -> list[dict[str, Any]]:
        """The pods' records on disk: the last whole line of each file."""
        found = []
        for path in sorted((self.state / "node" / self.name / "pods").glob("*.json")):
            try:
                lines = path.read_text().splitlines(keepends=True)
            except OSError:
                continue  # gone between listing and reading, or damaged by an attack and not set aside yet
            whole = [line for line in lines if line.endswith("\n")]
            found += [json.loads(line) for line in whole[-1:]]
        return found

    def pids(self, name: str) -> list[int]:
        """Main processes of the pod that are alive."""
        found = [each["pid"] for record in self.records() if _name(record) == name for each in record["containers"]]
        return [pid for pid in found if pid and Path(f"/proc/{pid}").exists()]

    def verdicts(self) -> dict[str, str]:
        """What became of pods that have ended: reason, or phase where there is none."""
        ended = {_name(each): each["verdict"] for each in self.records() if each["verdict"]}
        return {name: verdict["reason"] or verdict["phase"] for name, verdict in ended.items()}

    def facts(self, event: str) -> list[dict[str, Any]]:
        """What the agent said of this kind so far, from its log."""
        lines = self.log.read_text().splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return [line for line in whole if line["event"] == event]

    def told_at(self, event: str, number: int = -1) -> float:
        """When the agent said so, in seconds by its own wall clock: a test that looks later does not count."""
        return datetime.fromisoformat(self.facts(event)[number]["time"]).timestamp()

    def evicted(self) -> list[str]:
        """Names of pods whose eviction began, in order."""
        return [values["pod"].partition("/")[2] for values in self.facts("eviction_started")]

    def ask(self, path: str) -> Any:
        """A question to the agent's socket; None while it does not answer."""
        answer = self._fetch(path)
        return json.loads(answer) if answer else None

    def metrics(self) -> bytes:
        """As Prometheus would read them; nothing while there is no answer."""
        return self._fetch("/metrics")

    def _fetch(self, path: str) -> bytes:
        try:
            answer = fetch(self.state / "node" / self.name / "agent.sock", path, timeout=5)
        except ObservationError:
            return b""
        return answer.body if answer.status == 200 else b""

    def why(self, name: str) -> list[str]:
        """What `jettison why` says of the pod."""
        story = story_of(self.state / "node" / self.name / "journal", PodQuery(name))
        return [] if story is None else explain(story)

    def journal(self) -> list[Record]:
        """All records, oldest first."""
        directory = self.state / "node" / self.name / "journal"
        return list(read_journal(directory)) if directory.exists() else []

    def wait(self, condition: Callable[[], Any], what: str, seconds: float = 90) -> None:
        """Until `condition` holds; with the log when it does not."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s for {what}\n{self.log.read_text()[-6000:]}")
            time.sleep(0.05)


def _name(record: Mapping[str, Any]) -> str:
    return str(record["document"]["metadata"]["name"])
