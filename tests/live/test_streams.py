"""Streams through our API with real kubectl: commands, attachments, copies and ports, of processes and of containers.

One cluster for all: a node that runs processes, and one beside it that runs containers.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from jettison.node.kubelet import spdy
from tests.live.cluster import PODS, LiveCluster, pod
from tests.live.containerd import IMAGE, Containerd
from tests.live.far_node import far_node
from tests.live.kubectl import Kubectl, debian_kubectl, installed_kubectl
from tests.live.node import PYTHON
from tests.node.kubelet.test_websocket import client_frame

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run containers"),
]

TALK = "trap 'exit 0' TERM; i=0; while true; do echo line $i; i=$((i+1)); sleep 0.1; done"
LISTEN = "trap 'exit 0' TERM; while read word; do echo heard $word; done"


@dataclass(frozen=True)
class Stage:
    """Pods `process` and `box`, which talk, and `process-in` and `box-in`, which listen."""

    cluster: LiveCluster
    far: str

    def kubectl(self, program: Path, home: Path, user: str = "admin") -> Kubectl:
        return Kubectl(program, self.cluster.served.kubeconfig(user), home)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, containerd: Containerd) -> Iterator[Stage]:
    cluster = LiveCluster(tmp_path_factory.mktemp("streams"), ["--runtime", "host"], count=1)
    cluster.start()
    try:
        cluster.ready(f"/api/v1/nodes/{cluster.nodes[0]}")
        flags = ["--runtime", "cri", "--cri-endpoint", containerd.endpoint]
        with far_node(cluster, tmp_path_factory.mktemp("far"), flags) as far, far.up(signal.SIGTERM):
            places = {"process": (cluster.nodes[0], {}), "box": (far.name, {"image": IMAGE})}
            for name, (node, image) in places.items():
                cluster.create(PODS, pod(name, ["/bin/sh", "-c", TALK], node, container=image))
                listener = {**image, "stdin": True}
                cluster.create(PODS, pod(f"{name}-in", ["/bin/sh", "-c", LISTEN], node, container=listener))
            for name in places:
                cluster.ready(f"{PODS}/{name}")
                cluster.ready(f"{PODS}/{name}-in")
            yield Stage(cluster, far.name)
            for name in places:
                for each in (name, f"{name}-in"):
                    cluster.served.call("DELETE", f"{PODS}/{each}?gracePeriodSeconds=0")
            cluster.wait(lambda: not cluster.pods(), "the pods to go")
    finally:
        cluster.stop()


@pytest.fixture(params=["process", "box"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def kubectl(stage: Stage, program: Path, kubectl_home: Path) -> Kubectl:
    return stage.kubectl(program, kubectl_home)


@pytest.fixture(scope="module")
def one_program() -> Path:
    """Any: where it is not kubectl that matters."""
    return installed_kubectl() or debian_kubectl()


def test_each_node_says_what_runs_its_containers(stage: Stage) -> None:
    """As `kubectl get nodes -o wide` shows it; pods without images are processes of Jettison's own."""
    own, far = (
        stage.cluster.get(f"/api/v1/nodes/{name}")["status"]["nodeInfo"]["containerRuntimeVersion"]
        for name in (stage.cluster.nodes[0], stage.far)
    )
    assert own.startswith("jettison://")
    assert far.startswith("containerd://")


@pytest.fixture
def one_kubectl(stage: Stage, one_program: Path, kubectl_home: Path) -> Kubectl:
    return stage.kubectl(one_program, kubectl_home)


def test_a_command(kubectl: Kubectl, kind: str) -> None:
    """Exit code, both outputs apart, input to its end, and a megabyte each way unchanged."""
    done = kubectl.run("exec", kind, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "err\n" in done.stderr
    text = "0123456789abcde\n" * 65536
    assert kubectl("exec", "-i", kind, "--", "cat", stdin=text) == text
    complaint = kubectl.fails("exec", kind, "--", "no-such-program")
    assert complaint.count("error executing command in container") == 1
    assert "no-such-program" in complaint


def test_a_terminal(kubectl: Kubectl, kind: str) -> None:
    """It has the size of the client's, also after that has changed; the exit code is the shell's."""
    words = [str(kubectl.program), "--kubeconfig", str(kubectl.kubeconfig), "exec", "-it", kind, "--", "sh"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(words[0], words, {"HOME": str(kubectl.home), "PATH": os.environ["PATH"]})
    try:
        _set_size(terminal, 33, 101)
        _say(terminal, b"echo re''ady\n", b"ready")
        _say(terminal, _until_size("33 101"), b"it is")
        _set_size(terminal, 44, 111)
        os.kill(pid, signal.SIGWINCH)
        _say(terminal, _until_size("44 111"), b"it is")
        _say(terminal, b"exit 5\n", b"exit code 5")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    finally:
        os.close(terminal)


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _until_size(wanted: str) -> bytes:
    """A size comes a moment after the shell."""
    return f"while [ \"$(stty size)\" != '{wanted}' ]; do sleep 0.05; done; echo it''\\ is\n".encode()


def _say(terminal: int, words: bytes, answer: bytes) -> None:
    os.write(terminal, words)
    heard, deadline = b"", time.monotonic() + 60
    while answer not in heard:
        assert select.select([terminal], [], [], max(deadline - time.monotonic(), 0))[0], heard
        heard += os.read(terminal, 4096)


@contextmanager
def beside(kubectl: Kubectl, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A kubectl that ends with the body at the latest."""
    with kubectl.start(*words) as process:
        try:
            yield process
        finally:
            process.kill()


def test_attaching(kubectl: Kubectl, kind: str) -> None:
    """Output from now on; and input, to a container that has asked for it."""
    with beside(kubectl, "attach", kind) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("line ")
    with beside(kubectl, "attach", "-i", f"{kind}-in") as talking:
        assert talking.stdin is not None
        assert talking.stdout is not None
        talking.stdin.write("hello\n")
        talking.stdin.flush()
        assert talking.stdout.readline() == "heard hello\n"


def test_copying(kubectl: Kubectl, kind: str, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.write_bytes(os.urandom(300_000))
    target = f"/tmp/copied-{os.getpid()}-{kubectl.minor}"
    kubectl("cp", str(there), f"{kind}:{target}")
    kubectl("cp", f"{kind}:{target}", str(here))
    assert here.read_bytes() == there.read_bytes()
    kubectl("exec", kind, "--", "rm", target)


@contextmanager
def forwarded(kubectl: Kubectl, name: str, port: int) -> Iterator[int]:
    with beside(kubectl, "port-forward", name, f":{port}") as process:
        assert process.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert found is not None
        yield int(found[1])


def test_forwarding_a_port(kubectl: Kubectl, kind: str) -> None:
    """Both directions, and two connections at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with forwarded(kubectl, kind, port) as ours:
            clients = [socket.create_connection(("127.0.0.1", ours), 30) for _ in range(2)]
            for client in clients:
                client.sendall(b"ping")
            peers = [server.accept()[0] for _ in clients]
            for peer in peers:
                assert peer.recv(4, socket.MSG_WAITALL) == b"ping"
                peer.sendall(b"x" * 500_000)
                peer.shutdown(socket.SHUT_WR)
            for client in clients:
                with client:
                    assert len(_all(client)) == 500_000
            for peer in peers:
                peer.close()


def _all(connection: socket.socket) -> bytes:
    found = b""
    while data := connection.recv(65536):
        found += data
    return found


# In a process of its own, because it leaves connections open, and takes a second to be loaded.
OFFICIAL_CLIENT = """
import socket, sys
from kubernetes import client, config, stream
config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
options = dict(command=["sh", "-c", "echo said; exit 9"], stderr=True, stdin=False, stdout=True, tty=False)
for name in sys.argv[2:]:
    call = api.connect_get_namespaced_pod_exec
    command = stream.stream(call, name, "default", _preload_content=False, **options)
    command.run_forever(timeout=60)
    assert (command.read_stdout(), command.returncode) == ("said\\n", 9)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        forward = stream.portforward(api.connect_get_namespaced_pod_portforward, name, "default", ports=str(port))
        ours = forward.socket(port)
        ours.setblocking(True)
        ours.sendall(b"ping")
        peer = server.accept()[0]
        assert peer.recv(4, socket.MSG_WAITALL) == b"ping"
        peer.sendall(b"pong")
        assert ours.recv(4, socket.MSG_WAITALL) == b"pong"
        ours.close()
"""


def test_the_official_python_client(stage: Stage) -> None:
    """It speaks the fourth version over WebSocket, for commands and for ports."""
    words = [sys.executable, "-c", OFFICIAL_CLIENT, str(stage.cluster.served.kubeconfig()), "process", "box"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_node_serves(stage: Stage, one_kubectl: Kubectl, kind: str) -> None:
    node = stage.far if kind == "box" else stage.cluster.nodes[0]
    path = f"/api/v1/nodes/{node}/proxy"
    summary = json.loads(one_kubectl("get", "--raw", f"{path}/stats/summary"))
    assert summary["node"]["nodeName"] == node
    assert kind in {each["podRef"]["name"] for each in summary["pods"]}
    assert one_kubectl("get", "--raw", f"{path}/healthz") == "ok\n"
    assert "kubelet_" in one_kubectl("get", "--raw", f"{path}/metrics")
    assert "prober_probe_total" in one_kubectl("get", "--raw", f"{path}/metrics/probes")
    assert "node_memory_working_set_bytes" in one_kubectl("get", "--raw", f"{path}/metrics/resource")
    assert "kubeletconfig" in one_kubectl("get", "--raw", f"{path}/configz")
    port = stage.cluster.get(f"/api/v1/nodes/{node}")["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    assert one_kubectl("get", "--raw", f"/api/v1/nodes/https:{node}:{port}/proxy/healthz") == "ok\n"
    assert "only its own port" in one_kubectl.fails("get", "--raw", f"/api/v1/nodes/{node}:22/proxy/")
    log = f"{path}/containerLogs/default/{kind}/main?tailLines=1&sinceSeconds=3600&timestamps=true"
    # As with a kubelet, lines that are written meanwhile come as well.
    assert re.fullmatch(r"(20\S+Z line \d+\n){1,9}", one_kubectl("get", "--raw", log))


def test_what_a_pod_serves(stage: Stage, one_kubectl: Kubectl) -> None:
    """A pod that shares its node's network, asked through the API server; a service has nothing behind it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    serve = f"trap 'exit 0' TERM; echo hello >page; {PYTHON} -m http.server {port} --bind 127.0.0.1 & wait"
    ports = {"ports": [{"containerPort": port}]}
    cluster = stage.cluster
    cluster.create(PODS, pod("site", ["/bin/sh", "-c", serve], cluster.nodes[0], container=ports))
    try:
        cluster.ready(f"{PODS}/site")
        path = f"{PODS}/site/proxy/page"
        cluster.wait(lambda: one_kubectl.run("get", "--raw", path).stdout == "hello\n", "the page of the pod")
        assert one_kubectl("get", "--raw", f"{PODS}/site:{port}/proxy/page") == "hello\n"
        assert "page" in one_kubectl("get", "--raw", f"{PODS}/site/proxy")
        assert "address not allowed" in one_kubectl.fails("get", "--raw", f"{PODS}/site:22/proxy/")
    finally:
        cluster.served.call("DELETE", f"{PODS}/site?gracePeriodSeconds=0")
    one_kubectl("create", "service", "clusterip", "site", "--tcp=80")
    refused = one_kubectl.fails("get", "--raw", "/api/v1/namespaces/default/services/site/proxy/")
    assert 'no endpoints available for service "site"' in refused


def test_what_a_node_tells_of_itself(stage: Stage) -> None:
    """Its images, the pages that its kernel has set aside, how its runtime is, and that its pods have their places."""
    status = stage.cluster.get(f"/api/v1/nodes/{stage.far}")["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]}["ContainerRuntimeUnhealthy"] == "False"
    names = [name for image in status["images"] for name in image["names"]]
    assert IMAGE in names
    sizes = [image["sizeBytes"] for image in status["images"]]
    assert sizes == sorted(sizes, reverse=True)
    kinds = [path.name for path in Path("/sys/kernel/mm/hugepages").glob("hugepages-2048kB")]
    assert ["hugepages-2Mi"] * len(kinds) == [name for name in status["capacity"] if name == "hugepages-2Mi"]
    conditions = {each["type"]: each["status"] for each in stage.cluster.pod("box")["status"]["conditions"]}
    assert conditions["PodReadyToStartContainers"] == "True"


@pytest.mark.parametrize("user", ["viewer", "evictor", "node"])
def test_only_administrators_enter_pods(stage: Stage, one_program: Path, kubectl_home: Path, user: str) -> None:
    name = stage.cluster.nodes[0] if user == "node" else user
    kubectl = stage.kubectl(one_program, kubectl_home, name)
    for words in (["exec", "process", "--", "true"], ["attach", "process"], ["port-forward", "process", ":1"]):
        complaint = kubectl.fails(*words)
        assert "orbidden" in complaint, complaint
    for path in (f"/api/v1/nodes/{stage.cluster.nodes[0]}/proxy/pods", f"{PODS}/process/proxy/"):
        assert "orbidden" in kubectl.fails("get", "--raw", path)


def test_exec_of_this_machine_enters_containers(stage: Stage, kind: str) -> None:
    state = stage.cluster.log.parent / "state"
    if kind == "box":
        state = next(stage.cluster.log.parent.parent.glob("far*/state"))
    command = [
        str(Path(sys.executable).with_name("jettison")),
        "exec",
        "--state-dir",
        str(state),
        "-i",
        kind,
        "--",
        "sh",
        "-c",
        "cat; exit 3",
    ]
    done = subprocess.run(command, input="in and out", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "in and out", "")


# What hostile clients do, with the token of an administrator: others do not come so far.


@contextmanager
def upgraded(stage: Stage, path: str, protocol: str, *, is_spdy: bool = False) -> Iterator[socket.socket]:
    """A connection on which the node has agreed to speak the protocol."""
    served = stage.cluster.served
    name = ("X-Stream-Protocol-Version" if is_spdy else "Sec-WebSocket-Protocol") + f": {protocol}"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"
    kind = "SPDY/3.1" if is_spdy else f"websocket\r\n{key}"
    head = (
        f"{'POST' if is_spdy else 'GET'} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.token()}\r\n"
        f"Connection: Upgrade\r\nUpgrade: {kind}\r\n{name}\r\n\r\n"
    )
    plain = socket.create_connection(("127.0.0.1", served.port), 60)
    with served.trust().wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.sendall(head.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = connection.recv(1)
            assert data, answer
            answer += data
        assert answer.startswith(b"HTTP/1.1 101 "), answer
        yield connection


def test_a_frame_of_a_terabyte_ends_its_connection_alone(stage: Stage, one_kubectl: Kubectl, kind: str) -> None:
    path = f"{PODS}/{kind}/exec?command=cat&stdin=true&stdout=true"
    with upgraded(stage, path, "v5.channel.k8s.io") as connection:
        connection.sendall(struct.pack(">BBQ", 0x82, 0x80 | 127, 2**40) + bytes(4))
        # Its first message was empty; then the code for a message that is too large.
        assert _all(connection).endswith(struct.pack(">BBH", 0x88, 2, 1009))
    assert one_kubectl("exec", kind, "--", "echo", "fine") == "fine\n"


def test_a_thousand_channels_are_refused_beyond_a_few(stage: Stage, kind: str) -> None:
    with upgraded(stage, f"{PODS}/{kind}/portforward", "portforward.k8s.io", is_spdy=True) as connection:
        writer, reader = spdy.SpdyWriter(), spdy.SpdyReader()
        for number in range(1000):
            headers = {"streamtype": "error", "port": "1", "requestid": str(number)}
            connection.sendall(writer.open(2 * number + 1, headers))
        accepted = refused = 0
        while accepted + refused < 1000:
            for event in reader.read(connection.recv(65536)):
                accepted += isinstance(event, spdy.Accepted)
                refused += isinstance(event, spdy.Reset)
        assert accepted == 256


def test_a_stream_that_is_never_read_costs_a_few_pieces(stage: Stage, one_kubectl: Kubectl, kind: str) -> None:
    """The command stands still, others go on, and a process ends with its client."""
    note = f"/tmp/unread-{os.getpid()}-{one_kubectl.minor}"
    script = quote(f"echo $$ > {note}; exec cat /dev/zero")
    path = f"{PODS}/{kind}/exec?command=sh&command=-c&command={script}&stdout=true"
    with upgraded(stage, path, "v4.channel.k8s.io") as connection:
        connection.sendall(client_frame(9, b"are you there"))
        for _ in range(2):
            assert one_kubectl("exec", kind, "--", "echo", "fine") == "fine\n"
        alive = ("exec", kind, "--", "sh", "-c", f"kill -0 $(cat {note})")
        one_kubectl(*alive)
    if kind == "box":
        # containerd 1.6 leaves a command that writes to a client that has gone: it stands still, and ends with its pod.
        one_kubectl("exec", kind, "--", "sh", "-c", f"kill -9 $(cat {note})")
    stage.cluster.wait(lambda: one_kubectl.run(*alive).returncode, "the command to end")
    one_kubectl("exec", kind, "--", "rm", note)
