"""Pods with images on a real containerd: their life, their end, and a runtime that dies meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.runtimes.cri.client import CriClient, Listed
from jettison.runtimes.cri.driver import NODE
from jettison.runtimes.cri.store import POD
from tests.live import engines
from tests.live.cluster import LiveCluster
from tests.live.conftest import without_guest
from tests.live.containerd import IMAGE, PAUSE, Containerd, programs, write_image
from tests.live.debian import GuestUnavailableError
from tests.live.kubectl import Kubectl, debian_kubectl, installed_kubectl
from tests.live.node import HOLD, LiveNode, pod, python
from tests.live.quick_start import finished
from tests.live.registry import Registry
from tests.runtimes.lying_runtime import lying

WAIT = "trap 'exit 0' TERM; sleep 3600 & wait"
MAKE = "echo made > /own/made"


def boxed(name: str, program: str, **options: Any) -> dict[str, Any]:
    """A pod with one container, in which a shell runs the program."""
    container = {"image": IMAGE, **options.pop("container", {})}
    return pod(name, ["/bin/sh", "-c", program], container=container, **options)


def jettison(node: LiveNode, *words: str) -> str:
    """What a command about the node prints."""
    done = finished(*words, "--state-dir", str(node.state), "--node-name", node.name)
    done.check_returncode()
    return done.stdout


def listed(runtime: Containerd, node: LiveNode) -> tuple[Listed, ...]:
    """The sandboxes that the runtime has for the node."""

    async def ask() -> tuple[Listed, ...]:
        client = CriClient(runtime.socket)
        try:
            return await client.sandboxes({NODE: f"jettison/{node.name}"})
        finally:
            client.close()

    return asyncio.run(ask())


def left_cgroups(node: LiveNode) -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").glob(f"*/jettison/{node.name}") if path.exists()]


def states(node: LiveNode) -> dict[str, dict[str, Any]]:
    """The first container of each pod, as it is on record."""
    return {
        record["document"]["metadata"]["name"]: record["containers"][0]
        for record in node.records()
        if record["containers"]
    }


SECURE = {
    "securityContext": {
        "runAsUser": 1000,
        "runAsGroup": 2000,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}


def every_kind(shared: Path, registry: Registry) -> list[dict[str, Any]]:
    """One pod for each thing that a pod with an image can be."""
    volumes = [{"name": "own", "emptyDir": {}}, {"name": "host", "hostPath": {"path": str(shared)}}]
    mounts = [{"name": "own", "mountPath": "/own"}, {"name": "host", "mountPath": "/host", "readOnly": True}]
    told = "echo $WORD-$0 $FROM_IMAGE in $(pwd); cat /own/made /host/note; "
    told += f"(echo x > /host/no) 2>/dev/null || echo refused; {WAIT}"
    whole = boxed(
        "whole",
        told,
        volumes=volumes,
        initContainers=[
            {"name": "first", "image": IMAGE, "command": ["/bin/sh", "-c", MAKE], "volumeMounts": mounts},
        ],
        container={
            "args": ["$(WORD)"],
            "env": [{"name": "WORD", "value": "hello"}],
            "workingDir": "/data",
            "volumeMounts": mounts,
            "readinessProbe": {"exec": {"command": ["test", "-e", "/own/made"]}, "timeoutSeconds": 10},
            "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "echo stopped > /kept/hook"]}}},
        },
    )
    whole["spec"]["volumes"].append({"name": "kept", "hostPath": {"path": str(shared / "kept")}})
    whole["spec"]["containers"][0]["volumeMounts"] = [*mounts, {"name": "kept", "mountPath": "/kept"}]
    whole["spec"]["terminationGracePeriodSeconds"] = 20
    secure = f"id -u; id -g; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status; touch /x || echo sealed; {WAIT}"
    own_command = pod("own", [], container={"image": IMAGE})
    del own_command["spec"]["containers"][0]["command"]
    return [
        whole,
        boxed("secure", secure, container=SECURE),
        boxed("grouped", f"id -u; id -g; {WAIT}", container={"securityContext": {"runAsGroup": 2000}}),
        own_command,
        boxed("fails", "exit 3", restartPolicy="Never"),
        boxed("again", "echo run; exit 4"),
        boxed("greedy", "head -c 62914560 /dev/zero | tail", restartPolicy="Never", container=limited("20Mi")),
        boxed("pulled", f"echo pulled; {WAIT}", container={"image": f"{registry.address}/box:1"}),
        boxed("unknown", "true", container={"image": f"{registry.address}/box:2"}),
        boxed("missing", "true", container={"image": "127.0.0.1:1/none:1"}),
        boxed("never", "true", container={"image": "docker.io/local/none:1", "imagePullPolicy": "Never"}),
        boxed("mighty", "true", container={"securityContext": {"privileged": True}}),
        pod("process", ["sleep", "3600"]),
    ]


def limited(memory: str) -> dict[str, Any]:
    return {"resources": {"limits": {"memory": memory}}}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry(["/bin/sleep", "3600"]).serving() as found:
        yield found


@pytest.fixture(scope="module")
def node(containerd: Containerd, registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """With one pod of every kind, settled."""
    home = tmp_path_factory.mktemp("n")
    (home / "shared" / "kept").mkdir(parents=True)
    (home / "shared" / "note").write_text("noted\n")
    found = LiveNode(home, ["--cri-endpoint", containerd.endpoint])
    found.write(*every_kind(home / "shared", registry))
    found.start()
    try:
        found.wait(lambda: {"fails", "greedy"} <= found.verdicts().keys(), "two pods to end")
        others = {f"default/{name}" for name in ("whole", "secure", "grouped", "own", "process")}
        # Not by its processes: those of an init container come before.
        found.wait(
            lambda: others <= {each["pod"] for each in found.facts("container_started") if each["container"] == "main"},
            "the others to run",
        )
        yield found
    finally:
        found.stop()


def test_a_container_gets_what_its_pod_says(node: LiveNode) -> None:
    """Command and arguments with their variables, the image's environment, a directory, an init container, volumes."""
    wanted = ["hello-hello yes in /data", "made", "noted", "refused"]
    node.wait(lambda: jettison(node, "logs", "whole", "-c", "main").splitlines()[-1:] == ["refused"], "its last word")
    lines = jettison(node, "logs", "whole", "-c", "main").splitlines()
    assert lines == wanted


def test_a_container_has_no_more_rights_than_its_pod_says(node: LiveNode) -> None:
    node.wait(lambda: "sealed" in jettison(node, "logs", "secure"), "its last word")
    lines = jettison(node, "logs", "secure").splitlines()
    # The refusal of `touch` comes by another pipe than the rest, so it may stand anywhere among the lines.
    assert [line for line in lines if line.isdigit()] == ["1000", "2000"]
    assert {line.split()[0]: int(line.split()[1], 16) for line in lines if line[:1] in "CNS" and ":\t" in line} == {
        "CapEff:": 0,
        "NoNewPrivs:": 1,
        "Seccomp:": 2,
    }


def test_a_group_alone_is_the_group_of_the_images_user(node: LiveNode) -> None:
    node.wait(lambda: len(jettison(node, "logs", "grouped").split()) == 2, "its word")
    assert jettison(node, "logs", "grouped").split() == ["0", "2000"]


def test_an_image_brings_its_own_command_and_lines_their_own_times(node: LiveNode) -> None:
    node.wait(lambda: "own command" in jettison(node, "logs", "own"), "its word")
    told, text = jettison(node, "logs", "own", "--timestamps").strip().split(" ", 1)
    assert text == "own command"
    assert abs(states(node)["own"]["started_ns"] / 1e9 - _seconds(told)) < 30
    assert jettison(node, "logs", "own", "--tail", "0") == ""
    assert jettison(node, "logs", "own", "--since-time", "2100-01-01T00:00:00Z") == ""


def _seconds(text: str) -> float:
    return time.mktime(time.strptime(text.partition(".")[0], "%Y-%m-%dT%H:%M:%S")) - time.timezone


def test_ends_are_told_as_kubernetes_tells_them(node: LiveNode) -> None:
    """Exit codes and kills for want of memory by the kernel, restarts with back-off and the log of the run before."""
    found = states(node)
    assert (found["fails"]["exit_code"], found["fails"]["reason"]) == (3, "Error")
    assert (found["greedy"]["exit_code"], found["greedy"]["reason"]) == (137, "OOMKilled")
    # Of its three processes the kernel may kill more than one, one after the other.
    kills = {(fact["pod"], fact["container"]) for fact in node.facts("out_of_memory_kill")}
    assert kills == {("default/greedy", "main")}
    node.wait(lambda: states(node)["again"]["run"] >= 1, "a restart")
    node.wait(lambda: jettison(node, "logs", "again", "--previous") == "run\n", "the log of the first run")


def test_an_image_comes_from_its_registry(node: LiveNode, registry: Registry) -> None:
    """Once, and then it is there; with the policy Always the registry says at each start which image is meant."""
    node.wait(lambda: jettison(node, "logs", "pulled") == "pulled\n", "its word")
    fetched, resolved = registry.sent_layers, registry.resolved
    assert (fetched, resolved) > (1, 0)
    always = {"image": f"{registry.address}/box:1", "imagePullPolicy": "Always"}
    node.write(boxed("present", WAIT, container={"image": f"{registry.address}/box:1"}))
    node.wait(lambda: node.pids("present"), "a pod with the same image")
    assert (registry.sent_layers, registry.resolved) == (fetched, resolved)
    node.write(boxed("always", WAIT, container=always))
    node.wait(lambda: node.pids("always"), "a pod that asks again")
    assert registry.sent_layers == fetched
    assert registry.resolved > resolved


def test_a_pod_that_cannot_run_says_why(node: LiveNode, registry: Registry) -> None:
    """In the kubelet's words where it has some, with the runtime's own error in them."""

    def said() -> dict[str, str]:
        document = json.loads(jettison(node, "pods", "-o", "json"))
        return {each["metadata"]["name"]: json.dumps(each["status"]) for each in document["items"]}

    node.wait(lambda: "ImagePullBackOff" in said()["missing"], "the pull to fail")
    found = said()
    assert "connection refused" in found["missing"]
    node.wait(lambda: "ImagePullBackOff" in said()["unknown"], "the registry to be asked")
    assert f"{registry.address}/box:2: not found" in said()["unknown"]
    assert "ErrImageNeverPull" in found["never"]
    assert "is not present with pull policy of Never" in found["never"]
    assert "CreateContainerConfigError" in found["mighty"]
    assert "--allow-privileged" in found["mighty"]


def test_containers_live_on_when_the_agent_is_killed(node: LiveNode) -> None:
    """The next agent finds them by their processes, without asking the runtime; probes and logs go on."""
    before = {name: node.pids(name) for name in ("whole", "own", "process")}
    node.kill()
    node.start()
    node.wait(lambda: node.ask("/stats/summary"), "the agent")
    assert {name: node.pids(name) for name in before} == before

    def measured(what: str, amount: str) -> int:
        pods = {each["podRef"]["name"]: each for each in node.ask("/stats/summary")["pods"]}
        return max(int(each.get(what, {}).get(amount, 0)) for each in pods["own"]["containers"])

    assert measured("memory", "workingSetBytes") > 0
    # A file of its writable layer, which lies where the runtime has it.
    node.wait(lambda: measured("rootfs", "usedBytes") > 0, "the first walk over the disk")


def test_a_pod_that_is_deleted_leaves_nothing(node: LiveNode, containerd: Containerd) -> None:
    """Its hook has run, its sandbox is off the runtime's books, its cgroups are gone from every hierarchy."""
    uid = next(each["uid"] for each in node.records() if each["document"]["metadata"]["name"] == "whole")
    (node.manifests / "whole.json").unlink()
    node.wait(lambda: all(each["uid"] != uid for each in node.records()), "the pod to go")
    assert (node.directory / "shared" / "kept" / "hook").read_text() == "stopped\n"
    node.wait(lambda: uid not in {each.labels[POD] for each in listed(containerd, node)}, "the books")
    # Cgroups of other tests come and go meanwhile.
    assert [top for top, _, _ in os.walk("/sys/fs/cgroup") if top.endswith(f"pod{uid}")] == []


def test_images_are_listed_and_loaded(containerd: Containerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{programs()}:{os.environ['PATH']}")
    write_image(tmp_path / "i.tar", "docker.io/local/extra:1", ["/bin/sh"])

    def run(*words: str) -> str:
        done = finished("images", "--cri-endpoint", containerd.endpoint, *words)
        done.check_returncode()
        return done.stdout

    assert run("load", str(tmp_path / "i.tar")) == "loaded docker.io/local/extra:1\n"
    assert {line.split()[0] for line in run().splitlines()} >= {"IMAGE", IMAGE, PAUSE, "docker.io/local/extra:1"}
    (tmp_path / "i.tar").write_bytes(b"no archive")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run("load", str(tmp_path / "i.tar"))
    assert "cannot load" in caught.value.stderr


def test_an_archive_is_loaded_where_crio_keeps_its_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By podman, into the storage that CRI-O's configuration names; that of podman itself stays as it is."""
    try:
        found = engines.programs()
    except GuestUnavailableError as error:
        without_guest(str(error), os.environ, is_root=os.geteuid() == 0)
    # podman wants to see a runtime, though it starts nothing.
    monkeypatch.setenv("PATH", f"{found}:{programs()}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(found))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".config/containers").mkdir(parents=True)
    (tmp_path / ".config/containers/policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    write_image(tmp_path / "i.tar", "docker.io/local/extra:1", ["/bin/sh"])
    # podman takes no longer name for it than 50 characters.
    short = tempfile.mkdtemp()
    storage = ["--root", f"{tmp_path}/root", "--runroot", short]
    config = f'[crio]\nroot = "{storage[1]}"\nrunroot = "{storage[3]}"\nimagestore = ""\nstorage_driver = "overlay"\n'
    version = {"runtime_name": "cri-o", "runtime_version": "1.36.3", "runtime_api_version": "v1"}

    def load(name: str) -> subprocess.CompletedProcess[str]:
        return finished("images", "load", "--cri-endpoint", f"unix://{tmp_path}/{name}", str(tmp_path / "i.tar"))

    try:
        with lying(tmp_path / "c.sock", {"Version": version}, {"/config": config}):
            done = load("c.sock")
            assert (done.stdout, done.stderr, done.returncode) == ("loaded docker.io/local/extra:1\n", "", 0)
            words = ["podman", *storage, "images", "--format", "{{.Repository}}:{{.Tag}}"]
            listed = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            assert listed.stdout == "docker.io/local/extra:1\n"
            (tmp_path / "i.tar").write_bytes(b"no archive")
            assert "cannot load `" in load("c.sock").stderr
        with lying(tmp_path / "d.sock", {"Version": version}):
            refused = load("d.sock").stderr
            assert "does not tell where CRI-O keeps them (status 404)" in refused
    finally:
        subprocess.run(["umount", "-q", f"{storage[1]}/overlay"], check=False)
        shutil.rmtree(short)


# Seconds; its pings time out after 5.
HANGS = 30.0
GROW = "(head -c {bytes} /dev/zero; sleep 3600) | tail"


def is_up(node: LiveNode, runtime: Containerd) -> int:
    """What the metric of the runtime says."""
    name = f'jettison_container_runtime_up{{runtime="{runtime.socket}"}} '
    return next(int(line[-1]) for line in node.metrics().decode().splitlines() if line.startswith(name))


def test_pressure_evicts_the_pod_that_the_kubelet_would_evict(containerd: Containerd, tmp_path: Path) -> None:
    """A container above its request goes, a process and a container within theirs stay; and the journal says why.

    The runtime hangs all the while and on for half a minute, and is not missed; that it does is told.
    """
    node = LiveNode(
        tmp_path,
        ["--node-memory", "300Mi", "--eviction-hard", "memory.available<100Mi", "--cri-endpoint", containerd.endpoint],
    )
    shared = {"name": "shared", "mountPath": "/shared"}
    greedy = boxed(
        "greedy",
        "until test -e /shared/go; do sleep 0.05; done; " + GROW.format(bytes=150 << 20),
        volumes=[{"name": "shared", "hostPath": {"path": str(tmp_path)}}],
        container={"volumeMounts": [shared]},
    )
    node.write(
        pod("process", python(HOLD.format(mebibytes=30)), memory="60Mi"),
        boxed("modest", GROW.format(bytes=30 << 20), container={"resources": {"requests": {"memory": "60Mi"}}}),
        greedy,
    )
    node.start()
    try:
        node.wait(lambda: all(map(node.pids, ("process", "modest", "greedy"))), "all to run")
        containerd.hold()
        held = time.monotonic()
        try:
            (tmp_path / "go").touch()
            node.wait(lambda: node.facts("pod_cleaned_up"), "an eviction")
            node.wait(lambda: node.facts("container_runtime_lost"), "the loss to be told")
            assert is_up(node, containerd) == 0
            time.sleep(max(0.0, HANGS - (time.monotonic() - held)))
            assert node.ask("/stats/summary")["pods"]
        finally:
            containerd.go_on()
        node.wait(lambda: node.facts("container_runtime_answered"), "the return to be told")
        assert is_up(node, containerd) == 1
        assert node.evicted() == ["greedy"]
        assert node.verdicts()["greedy"] == "Evicted"
        assert any("over its request" in line for line in node.why("greedy"))
        assert node.pids("process")
        assert node.pids("modest")
    finally:
        node.stop()
    node.wait(lambda: not listed(containerd, node), "the books")
    assert left_cgroups(node) == []


def test_an_eviction_does_not_need_the_runtime(containerd: Containerd, tmp_path: Path) -> None:
    """Killed in the middle of it, the runtime is missed by nothing: the kernel ends the pod, the books follow later."""
    flags = ["--node-memory", "300Mi", "--cri-endpoint", containerd.endpoint, "--eviction-max-pod-grace-period", "3"]
    flags += ["--eviction-soft", "memory.available<150Mi", "--eviction-soft-grace-period", "memory.available=1s"]
    node = LiveNode(tmp_path, flags)
    deaf = boxed("deaf", f"trap '' TERM; {GROW.format(bytes=180 << 20)}", terminationGracePeriodSeconds=30)
    node.write(deaf)
    node.start()
    try:
        node.wait(lambda: node.facts("eviction_started"), "the eviction")
        containerd.kill()
        node.wait(lambda: node.facts("pod_evicted"), "its end")
        node.wait(lambda: node.facts("pod_cleaned_up"), "the clean-up")
        assert node.verdicts() == {"deaf": "Evicted"}
        assert states(node)["deaf"]["exit_code"] == 137
        node.wait(lambda: node.facts("container_runtime_lost"), "the loss to be told")
        containerd.start()
        node.wait(lambda: node.facts("container_runtime_answered"), "the return to be told")
        node.wait(lambda: not listed(containerd, node), "the books")
    finally:
        if containerd.process is None:
            containerd.start()
        node.stop()
    assert left_cgroups(node) == []


def check_top(kubectl: Kubectl, viewer: Kubectl) -> None:
    """What the node and the pod use, in millicores and mebibytes."""
    (node,) = kubectl("top", "node", "--no-headers").splitlines()
    assert re.fullmatch(r"\S+ +[0-9]+m +[0-9]+% +[0-9]+Mi +[0-9]+% *", node)
    (whole,) = viewer("top", "pod", "--no-headers").splitlines()
    assert re.fullmatch(r"box-\S+ +[0-9]+m +[0-9]+Mi *", whole)
    (part,) = viewer("top", "pod", "--containers", "--no-headers").splitlines()
    assert re.fullmatch(r"box-\S+ +box +[0-9]+m +[0-9]+Mi *", part)


def test_kubectl_runs_an_image_and_reads_its_log(containerd: Containerd, tmp_path: Path) -> None:
    """As it would on any cluster: a deployment made from an image's name alone."""
    cluster = LiveCluster(tmp_path, ["--node-memory", "256Mi", "--cri-endpoint", containerd.endpoint], count=1)
    cluster.start()
    try:
        kubectl = Kubectl(installed_kubectl() or debian_kubectl(), cluster.served.kubeconfig(), tmp_path)
        assert kubectl.run("create", "deployment", "box", f"--image={IMAGE}").returncode == 0
        done = kubectl.run("rollout", "status", "deployment/box", "--timeout=60s")
        assert done.returncode == 0, done.stderr + cluster.log.read_text()[-3000:]
        told = kubectl.run("logs", "deployment/box", "--timestamps").stdout.strip()
        assert told.endswith("Z own command")
        assert kubectl.run("logs", "deployment/box", "--since-time=2100-01-01T00:00:00Z").stdout == ""
        check_top(kubectl, Kubectl(kubectl.program, cluster.served.kubeconfig("viewer"), tmp_path))
    finally:
        cluster.stop()


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd runs here")
def test_a_runtime_that_leaves_cgroups_to_systemd_is_refused_without_it(tmp_path: Path) -> None:
    """Every sandbox would fail with a riddle about `slice:prefix:name`."""
    runtime = Containerd(tmp_path / "c", uses_systemd=True)
    runtime.start()
    words = ["up", "--state-dir", str(tmp_path / "s"), "--cri-endpoint", runtime.endpoint, "--runtime", "cri"]
    try:
        done = finished(*words)
    finally:
        runtime.clear()
    assert done.returncode == 1
    assert "leaves cgroups to systemd, which does not run here: set SystemdCgroup = false" in done.stderr


def test_a_runtime_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With --runtime cri at the start; otherwise pods with images wait for it, and processes do not."""
    words = ["up", "--state-dir", str(tmp_path / "s"), "--cri-endpoint", f"unix://{tmp_path}/none.sock", "--runtime"]

    def run(runtime: str) -> tuple[int, str]:
        done = finished(*words, runtime)
        return done.returncode, done.stderr

    code, said = run("cri")
    assert code == 1
    assert "--runtime cri: container runtime" in said
    assert "no such file" in said
    assert run("host")[0] == 2
