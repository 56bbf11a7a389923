"""What an operator does on a bare host: run a command in a pod, restart, delete and evict pods, take the node down."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jettison.agent.http.client import fetch
from jettison.runtimes.linux.processes import read_process
from tests.cli.guarded import PATIENCE, Guarded, as_nobody, pod, shell
from tests.cli.running import process

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make cgroups and to become another user")

TICKS = "trap 'echo told; exit 0' TERM; n=0; while true; do echo tick $n; n=$((n+1)); sleep 0.1; done"
SECURITY = {
    "runAsUser": 4711,
    "runAsGroup": 4712,
    "capabilities": {"drop": ["ALL"]},
    "allowPrivilegeEscalation": False,
    "seccompProfile": {"type": "RuntimeDefault"},
}
NODE = ("--eviction-hard", "memory.available<32Mi", "--node-memory", "256Mi", "--listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def node() -> Iterator[Guarded]:
    with TemporaryDirectory(prefix="jettison-orders-") as directory:
        # Unlike pytest's own directories one that another user can enter.
        Path(directory).chmod(0o755)
        yield from _guarded(Guarded(Path(directory), NODE))


def _guarded(guarded: Guarded) -> Iterator[Guarded]:
    guarded.write(
        pod("web", shell("main", TICKS, env=[{"name": "GREETING", "value": "hello"}]), shell("side", "sleep 600")),
        pod("user", shell("main", "sleep 600", securityContext=SECURITY)),
        pod("other", shell("main", "sleep 600")),
        pod("over", shell("main", "true"), restartPolicy="Never"),
    )
    guarded.up()
    guarded.wait(lambda: "is ready" in guarded.log.read_text(), "the greeting")
    try:
        yield guarded
    finally:
        guarded.stop()


def phases(node: Guarded) -> dict[str, str]:
    items = node.ask("/pods")["items"]
    return {each["metadata"]["name"]: each["status"].get("reason") or each["status"]["phase"] for each in items}


def _privileges(status: str) -> list[str]:
    names = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    return [line for line in status.splitlines() if line.partition(":")[0] in names]


def test_it_says_when_it_is_ready_and_what_it_guards(node: Guarded) -> None:
    said = node.log.read_text()
    assert f"node {node.name} is ready\n  hard     memory.available<32Mi\n  memory   noticed by " in said
    assert f" from {node.manifests}\n" in said


def test_it_says_so_when_it_guards_nothing(tmp_path: Path) -> None:
    idle = Guarded(tmp_path, ["--eviction-hard="])
    idle.start()
    try:
        idle.wait(lambda: "is ready" in idle.log.read_text(), "the greeting")
        assert "nothing is guarded: no thresholds are set, --eviction-hard sets some" in idle.log.read_text()
        assert f"no pods from {idle.manifests}" in idle.log.read_text()
    finally:
        idle.stop()


@needs_root
def test_a_command_runs_as_the_container_does(node: Guarded) -> None:
    """In its cgroup, with its environment and directory, and with its exit code."""
    script = 'echo $GREETING; pwd; cat /proc/self/cgroup; echo "oops" >&2; exit 7'
    done = node.run("exec", "web", "--", "sh", "-c", script)

    greeting, directory, *cgroups = done.stdout.splitlines()
    assert (done.returncode, greeting, done.stderr) == (7, "hello", "oops\n")
    assert directory.endswith("/containers/main/0")
    assert any(line.endswith("/container-main") and node.name in line for line in cgroups)


@needs_root
def test_it_has_the_identity_of_the_container(node: Guarded) -> None:
    done = node.run("exec", "user", "--", "sh", "-c", "id -u; id -g; id -G")
    assert done.stdout.split() == ["4711", "4712", "4712"]


@needs_root
def test_it_has_no_more_privileges_than_the_container(node: Guarded) -> None:
    status = Path(f"/proc/{node.pids('user')[0]}/status").read_text()
    done = node.run("exec", "user", "--", "cat", "/proc/self/status")

    assert _privileges(done.stdout) == _privileges(status)
    assert {"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "Seccomp:\t2"} <= set(_privileges(status))


@needs_root
def test_a_file_that_the_caller_has_open_is_not_the_commands(node: Guarded, tmp_path: Path) -> None:
    """Else a container of another user reads what root's shell has opened."""
    (tmp_path / "secret").write_text("hush")
    line = [sys.executable, "-m", "jettison", "exec", *node.where, "user", "--", "sh", "-c", "ls /proc/$$/fd"]
    with (tmp_path / "secret").open() as secret:
        done = subprocess.run(
            line, pass_fds=[secret.fileno()], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    assert (done.returncode, done.stdout.split()) == (0, ["0", "1", "2"]), done.stderr


def test_standard_input_is_passed_on_when_asked_for(node: Guarded) -> None:
    assert process("exec", *node.where, "-i", "web", "--", "cat", input="a\nb").stdout == "a\nb"
    assert process("exec", *node.where, "web", "--", "cat", input="a\nb").stdout == ""


def test_exec_takes_options_behind_the_pod_as_well(node: Guarded) -> None:
    """As kubectl: what stands before `--` is ours, unless the command has begun."""
    assert process("exec", *node.where, "web", "-i", "--", "cat", input="a\nb").stdout == "a\nb"
    assert node.run("exec", "web", "-c", "none", "--", "id").returncode == 1
    assert node.run("exec", "web", "echo", "-c", "x", "--", "-y").stdout == "-c x -- -y\n"
    assert node.run("exec", "web", "--", "echo", "-c", "--", "y").stdout == "-c -- y\n"
    assert node.run("exec", "web", "echo", "-n", "y").stdout == "y"


def test_a_signal_that_ends_the_caller_ends_the_command(node: Guarded) -> None:
    line = [sys.executable, "-m", "jettison", "exec", *node.where, "web", "--", "sh", "-c", "echo $$; sleep 600"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 128 + signal.SIGTERM
    node.wait(lambda: not Path(f"/proc/{pid}").exists(), "the command to end")


def test_a_terminal_of_the_caller_is_not_the_commands(node: Guarded) -> None:
    """Else what the command leaves running reads what root types there afterwards."""
    script = "ls -l /proc/$$/fd; read line; echo got $line >&2; exit 3"
    line = [sys.executable, "-m", "jettison", "exec", *node.where, "-i", "user", "--", "sh", "-c", script]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(line[0], line)
    os.write(terminal, b"it\n")
    seen = b""
    while not seen.count(b"got it"):
        assert select.select([terminal], [], [], PATIENCE)[0], seen
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3, seen
    os.close(terminal)

    assert b"got it" in seen
    assert seen.count(b"-> pipe:") == 3, seen
    assert b"/dev/" not in seen, seen


def test_a_terminal_is_one(node: Guarded) -> None:
    """With job control: Ctrl-C ends what the shell runs and not the shell."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "jettison", "exec", *node.where, "-it", "web", "--", "sh"])
    seen = b""

    def shows(text: bytes, times: int = 1, seconds: float = PATIENCE) -> bool:
        nonlocal seen
        deadline = time.monotonic() + seconds
        while seen.count(text) < times and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096)
        return seen.count(text) >= times

    prompt = b"# " if os.geteuid() == 0 else b"$ "
    assert shows(prompt), seen
    os.write(terminal, b"tty; sleep 600\n")
    assert shows(b"/dev/pts/"), seen
    for _ in range(20):
        # Between two commands a shell passes it over.
        os.write(terminal, b"\x03")
        if shows(prompt, times=2, seconds=1.5):
            break
    os.write(terminal, b"echo wel''come; exit 5\n")
    assert shows(b"welcome"), seen
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    os.close(terminal)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("web", "-c"), "option `-c` requires an argument"),
        (("-c", "nope", "web", "--", "ls"), "pod `default/web` has no container `nope`, there is main, side"),
        (("nobody", "--", "ls"), "there is no pod `nobody` on node"),
        (("over", "--", "ls"), "container `main` of pod `default/over` does not run"),
        (("web", "--", "no-such-program"), "cannot start `no-such-program`: no such file or directory"),
        (("web",), "no command: write it after `--`"),
        (("web", "--"), "no command: write it after `--`"),
    ],
)
def test_what_cannot_be_run_is_said(node: Guarded, arguments: tuple[str, ...], message: str) -> None:
    done = node.here("exec", *arguments)
    if message.startswith("option"):
        assert done.exit_code == 1  # `-c` is the command here, which is no program
    else:
        assert done.exit_code != 0
        assert message in done.stderr


def test_only_the_socket_takes_orders_and_only_by_post(node: Guarded) -> None:
    socket = node.node_state / "agent.sock"
    assert fetch(socket, "/orders/down?pods=end").status == 405
    assert fetch(socket, "/orders/delete", method="POST").status == 400
    assert fetch(socket, "/orders/delete?pod=web&grace=-1", method="POST").status == 400
    port = next(line for line in node.log.read_text().splitlines() if "listening on" in line).rpartition(":")[2]
    line = ["curl", "-sS", "-X", "POST", f"http://127.0.0.1:{port}/orders/down?pods=keep"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "only the agent's own socket answers this" in done.stdout
    assert node.ask("/pods")["items"]


@needs_root
def test_another_user_may_not(node: Guarded) -> None:
    for command in ("exec", "restart", "delete"):
        done = as_nobody(command, *node.where, "web", *(("--", "id") if command == "exec" else ()))
        assert done.returncode != 0
        assert done.stdout == ""


def test_restart_begins_anew(node: Guarded) -> None:
    before = node.pids("web")
    done = node.run("restart", "web")

    assert (done.returncode, done.stdout) == (0, 'pod "default/web" restarted\n'), done.stderr
    node.wait(lambda: phases(node).get("web") == "Running", "the pod to run")
    assert not set(before) & set(node.pids("web"))
    assert "told\ntick 0\n" in node.here("logs", "web", "-c", "main").stdout


def test_delete_lasts_until_the_manifest_changes(node: Guarded) -> None:
    done = node.run("delete", "other")

    assert (done.returncode, done.stdout) == (0, 'pod "default/other" deleted\n')
    assert f"it starts again when `{node.manifests}/default-other.json` changes, or with" in done.stderr
    node.kill()
    node.up()
    node.wait(lambda: phases(node).get("web") == "Running", "the others to be adopted")
    shown = node.here("pods")
    assert "other" not in shown.stdout
    assert "deleted by hand, and held until `jettison restart`: default/other" in shown.stderr
    assert node.run("restart", "other").stdout == 'pod "default/other" restarted\n'
    node.wait(lambda: phases(node).get("other") == "Running", "the pod to run")


def test_evict_leaves_it_in_sight(node: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("KUBECONFIG", "/nowhere")
        done = node.run("evict", "user")

    assert (done.returncode, done.stdout) == (0, 'pod "default/user" evicted\n'), done.stderr
    assert f"node `{node.name}` of this machine" in done.stderr
    assert phases(node)["user"] == "Evicted"
    why = node.here("why", "user").stdout
    assert "because   the operator of the node said so" in why
    again = node.run("evict", "user")
    assert (again.returncode, again.stderr) == (1, "error: pod `default/user` has ended already: Evicted\n")
    assert [each["order"] for each in node.facts("order_received")][-1:] == ["evict"]


def test_a_cluster_and_a_machine_are_not_asked_at_once(node: Guarded) -> None:
    done = node.run("evict", "web", "--server", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "mean this machine" in done.stderr


def test_down_keeps_pods_when_told_and_else_ends_them(node: Guarded) -> None:
    """After it the next `up` begins with what the manifests want. The last of the tests that use the node."""
    pids = node.pids("web")
    kept = node.run("down", "--keep-pods")
    assert (kept.returncode, kept.stdout) == (0, f"node {node.name} is down; its pods run on, unguarded\n")
    assert node.process is not None
    assert node.process.wait(PATIENCE) == 0
    assert node.pids("web") == pids
    assert node.run("down").stderr == f"error: no agent runs for node `{node.name}`\n"

    node.up()
    node.wait(lambda: phases(node).get("web") == "Running", "the pods to be adopted")
    done = node.run("down")
    assert (done.returncode, done.stdout) == (0, f"node {node.name} is down\n"), done.stderr
    assert node.process is not None
    assert node.process.wait(PATIENCE) == 0
    assert node.records() == []
    # An orphan that has ended may wait for init to take notice.
    assert not [pid for pid in pids if (found := read_process(pid)) is not None and not found.is_zombie]
    node.up()
    node.wait(lambda: phases(node).get("web") == "Running", "the manifests' pods")
