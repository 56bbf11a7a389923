"""A real node for the commands that look at one: `jettison up` as a process, with small pods."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from click.testing import Result

from jettison.cli.inspect.recorded_pods import read_records
from jettison.cli.program import COMMANDS
from tests.cli.running import run
from tests.live.node import GROW, LiveNode, python
from tests.live.quick_start import finished

PATIENCE = 30.0
NOBODY = 65534
FLAGS = ("--eviction-hard", "memory.available<32Mi", "--node-memory", "128Mi")

TICKS = 'n=0; while true; do echo "tick $n"; n=$((n+1)); sleep 0.2; done'
FLAKY = "if [ -e data/seen ]; then echo second run; sleep 600; else touch data/seen; echo first run; exit 3; fi"


class Guarded(LiveNode):
    """A node, and the commands that are put to it."""

    @property
    def node_state(self) -> Path:
        return self.state / "node" / self.name

    @property
    def where(self) -> Sequence[str]:
        return ("--state-dir", str(self.state), "--node-name", self.name)

    def write(self, *pods: Mapping[str, Any]) -> None:
        """Unlike everywhere else there are two pods of one name here."""
        for each in pods:
            metadata = each["metadata"]
            (self.manifests / f"{metadata['namespace']}-{metadata['name']}.json").write_text(json.dumps(each))

    def records(self) -> list[dict[str, Any]]:
        """As the commands read them."""
        return [msgspec.to_builtins(record) for record in read_records(self.node_state / "pods")]

    def up(self) -> None:
        """Start the agent and wait until it answers."""
        self.start()
        self.wait(lambda: self.ask("/rank") is not None, "the agent")

    def down(self) -> None:
        """Stop the agent; the pods live on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.process = None

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command about this node, as a process of its own."""
        return finished(command, *self.where, *arguments)

    def here(self, command: str, *arguments: str) -> Result:
        """The same in this process, which takes a tenth of the time."""
        return run(command, *self.where, *arguments)

    def answer(self, command: str, *arguments: str) -> dict[str, Any]:
        """The JSON that a command prints; it must succeed."""
        done = self.here(command, *arguments, "-o", "json")
        assert done.exit_code == 0, done.stderr
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document

    def has_on_record(self, event: str, pod: str) -> bool:
        return any(record.event == event and record.values.get("pod") == pod for record in self.journal())


def shell(name: str, script: str, memory: str = "", **more: Any) -> dict[str, Any]:
    """A container; `memory` is its request."""
    resources = {"requests": {"memory": memory}} if memory else {}
    return {"name": name, "command": ["sh", "-c", script], "resources": resources, **more}


def pod(name: str, *containers: dict[str, Any], namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": list(containers), **spec},
    }


WORLD = (
    pod("web", shell("main", TICKS, "16Mi"), shell("side", "echo aside; sleep 600")),
    pod("web", shell("main", "echo other; sleep 600", "16Mi"), namespace="shop"),
    pod("guard", shell("main", "sleep 600"), namespace="kube-system", priorityClassName="system-node-critical"),
    pod(
        "flaky",
        shell("main", FLAKY, "8Mi", volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        volumes=[{"name": "data", "emptyDir": {}}],
    ),
    pod("refused", shell("main", "true"), nodeSelector={"disk": "ssd"}),
    pod(
        "leak",
        {"name": "main", "command": python(f"print('leaking', flush=True); {GROW.format(pause=0.02)}")},
        namespace="shop",
    ),
)


@contextmanager
def after_an_eviction(*, starts_quickly: bool = True) -> Iterator[Guarded]:
    """A node whose agent runs, whose pods run, and on which shop/leak was evicted."""
    with TemporaryDirectory(prefix="jettison-cli-") as directory:
        # Unlike pytest's own directories one that others may enter, so that only the node itself keeps them out.
        Path(directory).chmod(0o755)
        node = Guarded(Path(directory), FLAGS, starts_quickly=starts_quickly)
        node.write(*WORLD)
        node.up()
        try:
            node.wait(lambda: node.has_on_record("pod_cleaned_up", "shop/leak"), "the leak's eviction")
            yield node
        finally:
            node.stop()


def line_of_nobody(command: str, *arguments: str) -> list[str]:
    """An interpreter may lie where only root can read it. A command imports as root and goes on as the user nobody; an
    agent, which executes the interpreter again and again, keeps the one right to find it.
    """
    if command == "up":
        reads = [f"--{kind}-caps=+dac_read_search" for kind in ("inh", "ambient")]
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reads]
        return [*user, sys.executable, "-m", "jettison", command, *arguments]
    room = COMMANDS[command][0].partition(".")[0]
    program = (
        "import ctypes, difflib, os, pkgutil, sys, jettison.node.guarding, jettison.cli.program\n"
        f"import jettison.cli.{room}\n"
        # All of its room: a command loads some of it only when it has seen its arguments.
        f"for each in pkgutil.iter_modules(jettison.cli.{room}.__path__, 'jettison.cli.{room}.'):\n"
        "    __import__(each.name)\n"
        "from jettison.cli import main\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        # After a change of user its own /proc is closed to a process until it asks (PR_SET_DUMPABLE) or runs a program.
        "ctypes.CDLL(None).prctl(4, 1)\n"
        "sys.argv[0] = 'jettison'\n"
        "main()\n"
    )
    return [sys.executable, "-c", program, command, *arguments]


def as_nobody(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command as a user that may do nothing."""
    line = line_of_nobody(command, *arguments)
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd="/")
