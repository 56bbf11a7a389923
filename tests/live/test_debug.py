"""Containers that are added to running pods for debugging, with real kubectl: to processes, and to containers."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import PODS, Json, LiveCluster, is_ready, pod
from tests.live.containerd import IMAGE, Containerd
from tests.live.far_node import FarNode, far_node
from tests.live.kubectl import Kubectl, debian_kubectl, installed_kubectl

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run containers"),
]

# A shell hears a signal while it waits, and takes no time; in a loop of short sleeps it starts ten processes a second.
MAIN = "trap 'exit 0' TERM; sleep 3600 & wait"
LONG = "trap 'exit 0' TERM; echo begun; sleep 3600 & wait"
_DEBUGS = 27


@dataclass(frozen=True)
class Stage:
    """Pods `process` and `box` run in it."""

    cluster: LiveCluster
    far: FarNode

    def create(self, kind: str, name: str = "", more: Json | None = None, **spec: Any) -> str:
        """A pod of this kind, once it is ready; with more in its container."""
        node, image = (self.far.name, {"image": IMAGE}) if kind == "box" else (self.cluster.nodes[0], {})
        name = name or kind
        container = {**image, **(more or {})}
        self.cluster.create(PODS, pod(name, ["/bin/sh", "-c", MAIN], node, container=container, **spec))
        self.cluster.ready(f"{PODS}/{name}")
        return name

    def add(self, name: str, *containers: Json) -> None:
        """By the API alone."""
        path = f"{PODS}/{name}/ephemeralcontainers"
        found = self.cluster.get(path)
        found["spec"]["ephemeralContainers"] = [*(found["spec"].get("ephemeralContainers") or ()), *containers]
        code, answer = self.cluster.served.call("PUT", path, found)
        assert code == 200, answer

    def state(self, name: str, container: str, kind: str, seconds: float = 90) -> Json:
        """What its status says of it, once it is of this kind."""

        def look() -> Json:
            told = self.cluster.pod(name)["status"].get("ephemeralContainerStatuses") or ()
            states = [each["state"] for each in told if each["name"] == container]
            return states[0] if states and kind in states[0] else {}

        found: Json = self.cluster.wait(look, f"{container} of {name} to be {kind}", seconds)[kind]
        return found


def debugger(name: str, command: str = LONG, **more: Any) -> Json:
    return {"name": name, "image": IMAGE, "command": ["/bin/sh", "-c", command], **more}


@contextmanager
def staged(directory: Path, containerd: Containerd) -> Iterator[Stage]:
    cluster = LiveCluster(directory, ["--runtime", "host"], count=1)
    cluster.start()
    try:
        cluster.ready(f"/api/v1/nodes/{cluster.nodes[0]}")
        flags = ["--runtime", "cri", "--cri-endpoint", containerd.endpoint]
        (directory / "far").mkdir()
        with far_node(cluster, directory / "far", flags) as far:
            yield Stage(cluster, far)
    finally:
        cluster.stop()


def emptied(stage: Stage) -> None:
    for each in stage.cluster.pods():
        stage.cluster.served.call("DELETE", f"{PODS}/{each['metadata']['name']}")
    stage.cluster.wait(lambda: not stage.cluster.pods(), "the pods to go")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, containerd: Containerd) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("debug"), containerd) as found, found.far.up(signal.SIGTERM):
        for kind in ("process", "box"):
            found.create(kind)
        yield found
        emptied(found)


@pytest.fixture(params=["process", "box"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def any_kubectl(stage: Stage, kubectl_home: Path) -> Kubectl:
    """For logs and commands."""
    return Kubectl(installed_kubectl() or debian_kubectl(), stage.cluster.served.kubeconfig(), kubectl_home)


@pytest.fixture
def kubectl(any_kubectl: Kubectl) -> Kubectl:
    """One whose `debug` adds containers as Kubernetes does today."""
    if any_kubectl.minor < _DEBUGS:
        pytest.skip("this kubectl has another way of adding containers")
    return any_kubectl


def test_what_is_added_runs_beside_the_pod(stage: Stage, any_kubectl: Kubectl, kind: str) -> None:
    """Its log, commands in it, and its end; the pod does not notice."""
    name = f"beside-{kind}"
    before = stage.cluster.pod(kind)["status"]
    stage.add(kind, debugger(name, "trap 'kill $!; exit 4' USR1; echo begun; sleep 600 & wait"))
    assert stage.state(kind, name, "running")["startedAt"]
    stage.cluster.wait(lambda: any_kubectl("logs", kind, "-c", name) == "begun\n", "its log")
    assert any_kubectl("exec", kind, "-c", name, "--", "echo", "inside") == "inside\n"
    summary = json.loads(any_kubectl("get", "--raw", f"/api/v1/nodes/{node_of(stage, kind)}/proxy/stats/summary"))
    (measured,) = (each for each in summary["pods"] if each["podRef"]["name"] == kind)
    assert {"main", name} <= {each["name"] for each in measured["containers"]}
    # As process 1 of its container a shell hears only what it has a trap for.
    script = "kill -USR1 1" if kind == "box" else f"kill -USR1 {_main(stage, kind, name)}"
    # The command ends with the container, so that its own code may be lost.
    any_kubectl.run("exec", kind, "-c", name, "--", "/bin/sh", "-c", script)
    assert stage.state(kind, name, "terminated")["exitCode"] == 4
    after = stage.cluster.pod(kind)["status"]
    for part in ("phase", "containerStatuses"):
        assert before[part] == after[part], part
    assert [(each["type"], each["status"]) for each in after["conditions"]] == [
        (each["type"], each["status"]) for each in before["conditions"]
    ]
    assert any_kubectl("logs", kind, "-c", name) == "begun\n"
    assert name not in any_kubectl("get", "pod", kind)


def node_of(stage: Stage, kind: str) -> str:
    return stage.far.name if kind == "box" else stage.cluster.nodes[0]


def _main(stage: Stage, name: str, container: str) -> int:
    """The main process of a container of processes, by its record."""
    (records,) = stage.cluster.state.glob("node/*/pods")
    for path in records.glob("*.json"):
        record = json.loads(path.read_text().splitlines()[-1])
        if record["document"]["metadata"]["name"] == name:
            return next(int(each["pid"]) for each in record["containers"] if each["name"] == container)
    raise AssertionError(f"no record of {name}")


def test_kubectl_debug_talks_in_a_terminal(stage: Stage, kubectl: Kubectl, kind: str) -> None:
    """`kubectl debug -it`: prompt, size, answers, and its exit; what was said is in the log."""
    name = f"talk-{kind}"
    words = [str(kubectl.program), "--kubeconfig", str(kubectl.kubeconfig), "debug", kind, "-it"]
    # The profile that newer ones use unasked: it adds a capability.
    words += [f"--image={IMAGE}", f"--container={name}", "--target=main", "--profile=general", "--", "sh"]
    with terminal(words, kubectl.home) as ours:
        stage.state(kind, name, "running")
        say(ours, b"echo hea''rd\n", b"heard")
        say(ours, b"stty size\n", b"33 101")
        os.write(ours, b"exit 3\n")
        read_all(ours)
    assert stage.state(kind, name, "terminated")["exitCode"] == 3
    assert "heard" in kubectl("logs", kind, "-c", name)


def test_a_client_comes_back_to_a_terminal(stage: Stage, any_kubectl: Kubectl, kind: str) -> None:
    """Its shell is still there, with what it knew. A process has room for one client at a time."""
    name = f"again-{kind}"
    stage.add(kind, {"name": name, "image": IMAGE, "command": ["sh"], "stdin": True, "tty": True})
    stage.state(kind, name, "running")
    words = [str(any_kubectl.program), "--kubeconfig", str(any_kubectl.kubeconfig), "attach", "-it", kind, "-c", name]
    with terminal(words, any_kubectl.home) as ours:
        say(ours, b"known=word; echo no''ted\n", b"noted")
        if kind == "process":
            assert "another client is attached" in any_kubectl.fails("attach", kind, "-c", name)

    def answered() -> bool:
        # A client that was killed is attached until the node has noticed it.
        with terminal(words, any_kubectl.home) as ours:
            return b"still word" in tell(ours, b'echo still "$known"\n', b"still word", 5)

    stage.cluster.wait(answered, "the shell to answer again")


@contextmanager
def terminal(words: list[str], home: Path) -> Iterator[int]:
    pid, ours = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
        os.execve(words[0], words, {"HOME": str(home), "PATH": os.environ["PATH"]})
    try:
        yield ours
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ours)


def tell(ours: int, words: bytes, answer: bytes, seconds: float) -> bytes:
    """What comes, up to the answer. Said again and again: what is written before a client is attached may be lost."""
    heard, deadline, next_ = b"", time.monotonic() + seconds, 0.0
    while answer not in heard and time.monotonic() < deadline:
        if time.monotonic() >= next_:
            os.write(ours, words)
            next_ = time.monotonic() + 2
        if select.select([ours], [], [], 0.1)[0]:
            try:
                heard += os.read(ours, 4096)
            except OSError:
                break
    return heard


def say(ours: int, words: bytes, answer: bytes) -> None:
    heard = tell(ours, words, answer, 60)
    assert answer in heard, heard


def read_all(ours: int) -> None:
    """Until the other side is closed."""
    deadline = time.monotonic() + 60
    while select.select([ours], [], [], max(deadline - time.monotonic(), 0))[0]:
        try:
            if not os.read(ours, 4096):
                return
        except OSError:
            return


def test_input_without_a_terminal(stage: Stage, any_kubectl: Kubectl, kind: str) -> None:
    name = f"input-{kind}"
    stage.add(kind, debugger(name, "while read word; do echo heard $word; done", stdin=True))
    stage.state(kind, name, "running")
    with any_kubectl.start("attach", "-i", kind, "-c", name) as talking:
        try:
            assert talking.stdin is not None
            assert talking.stdout is not None
            talking.stdin.write("hello\n")
            talking.stdin.flush()
            assert talking.stdout.readline() == "heard hello\n"
        finally:
            talking.kill()


def test_a_target_shares_its_processes(stage: Stage, any_kubectl: Kubectl) -> None:
    """Of a container the target's process 1 is also its own; without a target it sees only itself."""
    look = "cat /proc/1/cmdline | tr '\\0' ' '; echo"
    stage.add("box", debugger("sees", look, targetContainerName="main"), debugger("alone", look))
    assert stage.state("box", "sees", "terminated")["exitCode"] == 0
    stage.state("box", "alone", "terminated")
    assert MAIN in any_kubectl("logs", "box", "-c", "sees")
    assert MAIN not in any_kubectl("logs", "box", "-c", "alone")


def test_an_image_that_cannot_be_had_keeps_only_its_container_waiting(stage: Stage) -> None:
    missing = {"image": "127.0.0.1:1/none:1", "imagePullPolicy": "IfNotPresent"}
    absent = {"image": "docker.io/local/absent:1", "imagePullPolicy": "Never"}
    stage.add("box", debugger("pulls") | missing, debugger("never") | absent, debugger("after", "exit 0"))
    waits = stage.state("box", "pulls", "waiting")
    stage.cluster.wait(
        lambda: stage.state("box", "pulls", "waiting").get("reason") == "ImagePullBackOff", "the pull to fail"
    )
    waits = stage.state("box", "pulls", "waiting")
    assert waits["message"].startswith('Back-off pulling image "127.0.0.1:1/none:1": ErrImagePull: ')
    stage.cluster.wait(
        lambda: stage.state("box", "never", "waiting").get("reason") == "ErrImageNeverPull", "the refusal"
    )
    assert stage.state("box", "after", "terminated")["exitCode"] == 0
    assert is_ready(stage.cluster.pod("box"))


def test_without_a_command_a_pod_of_processes_says_what_it_needs(stage: Stage, kubectl: Kubectl) -> None:
    done = kubectl.run("debug", "process", f"--image={IMAGE}", "--container=bare")
    assert done.returncode == 0
    assert "not started" not in done.stderr
    ended = stage.state("process", "bare", "terminated")
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "kubectl debug POD --image=ANY -- COMMAND" in ended["message"]


def test_what_it_writes_is_its_pods(stage: Stage, kind: str) -> None:
    """A limit on the pod's disk counts it, and the eviction ends both."""
    limits = {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}
    name = stage.create(kind, f"{kind}-full", more=limits)
    stage.add(name, debugger("writes", f"dd if=/dev/zero of=big bs=1M count=8; {LONG}"))

    def evicted() -> Json:
        found: Json = stage.cluster.pod(name)["status"]
        return found if found["phase"] == "Failed" else {}

    status = stage.cluster.wait(evicted, f"{name} to be evicted")
    assert status["reason"] == "Evicted"
    assert status["message"] == "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "
    stage.state(name, "writes", "terminated")
    stage.cluster.served.call("DELETE", f"{PODS}/{name}")
    stage.cluster.gone(f"{PODS}/{name}")


def test_the_pod_takes_them_along(stage: Stage, kind: str) -> None:
    """When it is gone, so is its cgroup with all that ran in it."""
    name = stage.create(kind, f"{kind}-goes")
    stage.add(name, debugger("stubborn", "trap '' TERM; exec sleep 600"))
    stage.state(name, "stubborn", "running")
    uid = stage.cluster.pod(name)["metadata"]["uid"]
    assert cgroups(node_of(stage, kind), uid)
    stage.cluster.served.call("DELETE", f"{PODS}/{name}")
    stage.cluster.gone(f"{PODS}/{name}")
    assert not cgroups(node_of(stage, kind), uid)


def cgroups(node: str, uid: str) -> list[Path]:
    """Of a pod that asks for nothing, in all hierarchies."""
    return list(Path("/sys/fs/cgroup").glob(f"*/jettison/{node}/kubepods/besteffort/pod{uid}"))


def test_too_many_of_them_cost_the_pod_nothing(stage: Stage) -> None:
    """64 run, the next ones say why they do not, and the pod goes on."""
    name = stage.create("process", "many")
    stage.add(name, *(debugger(f"d{number}", "exit 0") for number in range(70)))
    for number in (0, 63):
        stage.state(name, f"d{number}", "terminated", 120)
    refused = stage.state(name, "d64", "terminated", 120)
    assert refused["message"] == "at most 64 ephemeral containers of a pod are started, it has 70"
    assert is_ready(stage.cluster.pod(name))
    stage.cluster.served.call("DELETE", f"{PODS}/{name}")
    stage.cluster.gone(f"{PODS}/{name}")


def test_an_agent_that_was_killed_finds_them_again(tmp_path: Path, containerd: Containerd) -> None:
    """Neither what runs nor what has ended is started a second time, and a shell in a terminal is still there."""
    talks = {"name": "talks", "image": IMAGE, "command": ["sh"], "stdin": True, "tty": True}
    with staged(tmp_path, containerd) as stage:
        # A container knows by a file of its pod that it has run.
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        note = 'cd /v 2>/dev/null || cd v; echo once >> "$NAME"; '
        with stage.far.up(signal.SIGKILL):
            for kind in ("process", "box"):
                stage.create(kind, volumes=[{"name": "v", "emptyDir": {}}])
                runs = debugger("runs", note + LONG, env=[{"name": "NAME", "value": "runs"}], **mount)
                over = debugger("over", note, env=[{"name": "NAME", "value": "over"}], **mount)
                stage.add(kind, runs, over, talks)
                stage.state(kind, "runs", "running")
                stage.state(kind, "over", "terminated")
                stage.state(kind, "talks", "running")
        stage.cluster.kill()
        stage.cluster.start()
        with stage.far.up(signal.SIGTERM):
            for kind in ("process", "box"):
                stage.cluster.ready(f"{PODS}/{kind}")
                # Whatever is added to it now is what an agent does that has taken over.
                reads = "cd /v 2>/dev/null || cd v; cat runs over"
                stage.add(kind, debugger("reads", reads, **mount))
                stage.state(kind, "reads", "terminated")
                assert stage.state(kind, "runs", "running")
                assert stage.state(kind, "over", "terminated")["exitCode"] == 0
                told = stage.cluster.pod(kind)["status"]["ephemeralContainerStatuses"]
                assert [each["restartCount"] for each in told] == [0, 0, 0, 0]
                code, log = stage.cluster.served.ask(
                    "GET", f"{PODS}/{kind}/log?container=reads", None, stage.cluster.served.token()
                )
                assert (code, log) == (200, b"once\nonce\n")
                kubectl = Kubectl(installed_kubectl() or debian_kubectl(), stage.cluster.served.kubeconfig(), tmp_path)
                words = [str(kubectl.program), "--kubeconfig", str(kubectl.kubeconfig), "attach", "-it", kind]
                with terminal([*words, "-c", "talks"], tmp_path) as ours:
                    say(ours, b"echo still her''e\n", b"still here")
            emptied(stage)
