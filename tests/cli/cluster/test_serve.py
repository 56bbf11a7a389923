"""`jettison serve` as an operator meets it: what it prints, writes, refuses and survives."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.quick_start import finished
from tests.live.served import Served, announced_port, end, serving, start

COMMAND = (sys.executable, "-m", "jettison", "serve")


def refused(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = finished("serve", *arguments)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done


def test_what_it_writes_is_for_its_owner_alone(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as server:
        files = [each for each in (tmp_path / "state").rglob("*") if each.is_file()]
        assert {"admin.kubeconfig", "viewer.kubeconfig", "evictor.kubeconfig"} <= {each.name for each in files}
        assert {"tokens.json", "ca.pem", "server.pem"} <= {each.name for each in files}
        assert [each for each in files if stat.S_IMODE(each.stat().st_mode) & 0o077] == []
        assert stat.S_IMODE((tmp_path / "state" / "cluster").stat().st_mode) == 0o700
        assert server.call("GET", "/api/v1/namespaces/default")[0] == 200
        users = {entry["user"] for entry in json.loads((tmp_path / "state/cluster/tokens.json").read_text())["tokens"]}
        assert {"admin", "viewer", "evictor"} <= users


def test_a_restart_keeps_objects_and_tokens(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as first:
        assert first.call("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})[0] == 201
        token, authority = first.token(), (tmp_path / "state/cluster/pki/ca.crt").read_bytes()
    with serving(tmp_path / "state") as second:
        assert second.token() == token
        assert (tmp_path / "state/cluster/pki/ca.crt").read_bytes() == authority
        assert second.call("GET", "/api/v1/nodes/n1")[0] == 200


def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as first:
        done = refused("--state-dir", str(tmp_path / "state"), "--listen", "127.0.0.1:0")
        assert done.returncode == 1
        assert f"is in use by process `{first.process.pid}`" in done.stderr
        assert first.call("GET", "/version")[0] == 200


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_even_while_a_client_watches(tmp_path: Path, which: signal.Signals) -> None:
    with serving(tmp_path / "state") as server:
        watching = server.connect()
        headers = {"Authorization": f"Bearer {server.token()}"}
        watching.request("GET", "/api/v1/namespaces?watch=true", headers=headers)
        answer = watching.getresponse()
        assert answer.readline().startswith(b'{"type":"ADDED"')
        server.process.send_signal(which)
        # The stream ends as it should, with its last chunk, and not with a broken connection.
        answer.read()
        assert server.process.wait(60) == 0
        watching.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_signal_to_all_of_it_ends_it_in_order(tmp_path: Path) -> None:
    """A Ctrl-C in a terminal and a stop by systemd reach every process: the controllers wait for the server's word."""
    with serving(tmp_path / "state") as server:
        _, controllers = server.pids
        for pid in (controllers, server.process.pid):
            os.kill(pid, signal.SIGINT)
        assert server.process.wait(60) == 0
    # On a busy machine they hold their lease by then, and say so.
    said = (tmp_path / "state.log").read_text().splitlines()
    assert {json.loads(line)["event"] for line in said} <= {"noted"}


def test_controllers_do_not_outlive_their_server(tmp_path: Path) -> None:
    server = start(tmp_path / "state")
    _, controllers = server.pids
    assert Path(f"/proc/{controllers}/comm").read_text() == "controllers\n"
    end(server.process, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{controllers}/cmdline").exists())


def test_a_server_does_not_outlive_its_controllers(tmp_path: Path) -> None:
    """What it serves would look alive, and nothing would ever happen in it."""
    server = start(tmp_path / "state")
    os.kill(server.pids[1], signal.SIGKILL)
    assert server.process.wait(60) == 1
    end(server.process, signal.SIGKILL)
    assert (tmp_path / "state.log").read_text() == "error: the process `controllers` has ended: killed by signal 9\n"


def test_controllers_that_do_not_listen_are_not_waited_for(tmp_path: Path) -> None:
    """And not left behind either, however often the server is asked to end."""
    with serving(tmp_path / "state") as server:
        _, controllers = server.pids
        os.kill(controllers, signal.SIGSTOP)
        server.process.terminate()
        time.sleep(0.2)
        server.process.terminate()
        assert server.process.wait(60) == 0
        assert not Path(f"/proc/{controllers}").exists()


def test_stopped_controllers_do_not_outlive_a_killed_server(tmp_path: Path) -> None:
    server = start(tmp_path / "state")
    _, controllers = server.pids
    os.kill(controllers, signal.SIGSTOP)
    end(server.process, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{controllers}/exe").exists())


def replica_set(name: str, priority: str) -> dict[str, Any]:
    spec = {"priorityClassName": priority, "containers": [{"name": "main", "image": "registry.example/app:1"}]}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def test_a_log_that_is_not_read_stops_no_process(tmp_path: Path) -> None:
    """The reader of standard error has stalled. The controllers have much to complain about, and work on."""
    readable, writable = os.pipe()
    room = fcntl.fcntl(writable, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writable, b"x" * room)
    command = (*COMMAND, "--state-dir", str(tmp_path / "state"), "--listen", "127.0.0.1:0")
    sets, pods = "/apis/apps/v1/namespaces/default/replicasets", "/api/v1/namespaces/default/pods"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writable, text=True) as process:
        try:
            server = Served(tmp_path / "state", process, announced_port(process, tmp_path / "nothing"))
            for number in range(20):
                assert server.call("POST", sets, replica_set(f"hopeless-{number}", "nobody"))[0] == 201
            assert server.call("POST", sets, replica_set("good", ""))[0] == 201
            wait_until(lambda: bool(server.call("GET", pods)[1]["items"]))
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            os.close(writable)
            os.close(readable)


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_file_is_none_of_its_business(tmp_path: Path, closed: int) -> None:
    """Neither does a socket of ours become one of them."""
    command = (*COMMAND, "--state-dir", str(tmp_path / "state"), "--listen", "127.0.0.1:0")
    process = subprocess.Popen(["sh", "-c", f'exec "$@" {closed}>&-', "sh", *command])
    try:
        wait_until((tmp_path / "state" / "admin.kubeconfig").exists)
        assert str(Path(f"/proc/{process.pid}/fd/{closed}").readlink()) == "/dev/null"
    finally:
        process.terminate()
    assert process.wait(60) == 0


def test_its_greeting_need_not_be_read(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    command = (*COMMAND, "--state-dir", str(tmp_path / "state"), "--listen", "127.0.0.1:0")
    process = subprocess.Popen(command, stdout=writable, text=True)
    os.close(writable)
    config = tmp_path / "state" / "admin.kubeconfig"
    try:
        wait_until(config.exists)
        port = re.search(r"https://127.0.0.1:(\d+)", config.read_text())
        assert port is not None
        assert Served(config.parent, process, int(port[1])).call("GET", "/api/v1/nodes")[0] == 200
    finally:
        process.terminate()
    assert process.wait(60) == 0


@pytest.mark.parametrize("name", ["admin", "viewer", "evictor", "controllers"])
def test_a_node_takes_no_other_users_kubeconfig(tmp_path: Path, name: str) -> None:
    said = refused("--state-dir", str(tmp_path / "state"), "--node", name).stderr
    assert said == f"error: a node cannot be called `{name}`: `{name}.kubeconfig` is the file of another user\n"
    assert not (tmp_path / "state").exists()


def test_a_node_of_an_earlier_start_finds_the_server_where_it_is_now(tmp_path: Path) -> None:
    with serving(tmp_path / "state", "--node", "n1"):
        pass
    with serving(tmp_path / "state") as server:
        assert server.url in server.kubeconfig("n1").read_text()


def test_no_controllers_are_no_process(tmp_path: Path) -> None:
    with serving(tmp_path / "state", "--controllers=-") as server:
        assert server.pids == [server.process.pid]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--listen", "6443"), "is not a place to listen at"),
        (("--listen", "192.0.2.1:0"), "cannot listen at `192.0.2.1:0`: Cannot assign requested address"),
        (("--controllers", "nonsense"), "`nonsense` is not in the list of known controllers"),
        (("--state-dir", "/proc/nowhere"), "cannot create the folder `/proc/nowhere`"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = refused("--state-dir", str(tmp_path), *arguments)
    assert complaint in done.stderr
    assert done.stderr.count("\n") <= 2


def test_a_damaged_file_of_tokens_is_named(tmp_path: Path) -> None:
    with serving(tmp_path, "--controllers=-"):
        pass
    (tmp_path / "cluster" / "tokens.json").write_text("{")
    assert "is not a file of tokens" in refused("--state-dir", str(tmp_path), "--listen", "127.0.0.1:0").stderr


def test_an_address_that_others_can_reach_is_remarked(tmp_path: Path) -> None:
    with serving(tmp_path / "state", "--listen", "0.0.0.0:0") as server:
        assert server.call("GET", "/version")[0] == 200
    assert "can be reached from other machines" in (tmp_path / "state.log").read_text()


@pytest.mark.parametrize(
    ("profile", "code", "why"), [("kubelet", 500, "more than one"), ("improved", 429, "disruption budget")]
)
def test_the_profile_reaches_handler_and_controllers(tmp_path: Path, profile: str, code: int, why: str) -> None:
    """Two budgets, one of which cannot be counted: it is unknown how many pods the owner wants."""
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "web"}}
    container = {"name": "main", "image": "registry.example/app:1"}
    owner = {"apiVersion": "example.org/v1", "kind": "Shop", "name": "s", "uid": "u1", "controller": True}
    metadata = {"name": "p", "labels": {"app": "web"}, "ownerReferences": [owner]}
    with serving(tmp_path / "state", "--profile", profile) as server:
        for name, limit in (("a", {"minAvailable": 0}), ("b", {"maxUnavailable": 1})):
            body = {"metadata": {"name": name}, "spec": {"selector": selector, **limit}}
            assert server.call("POST", budgets, body)[0] == 201
        pods = "/api/v1/namespaces/default/pods"
        spec = {"nodeName": "n1", "containers": [container]}
        assert server.call("POST", pods, {"metadata": metadata, "spec": spec})[0] == 201
        _, pod = server.call("GET", f"{pods}/p")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        assert server.call("PUT", f"{pods}/p/status", {**pod, "status": status})[0] == 200

        def eviction() -> tuple[int, Any]:
            return server.call("POST", f"{pods}/p/eviction", {"metadata": {"name": "p"}})

        deadline = time.monotonic() + 30
        while "failed sync" not in str(eviction()) and profile == "improved":
            assert time.monotonic() < deadline, eviction()
            time.sleep(0.1)
        answer = eviction()
        assert (answer[0], why in answer[1]["message"]) == (code, True)


def test_nothing_is_loaded_from_where_it_is_started(tmp_path: Path) -> None:
    """`cd /tmp && sudo jettison serve`: any user may have put files there."""
    trap, marker = tmp_path / "folder" / "cryptography", tmp_path / "loaded"
    trap.mkdir(parents=True)
    (trap / "__init__.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    command = (sys.executable, "-P", *COMMAND[1:], "--state-dir", str(tmp_path / "state"), "--listen", "127.0.0.1:0")
    with subprocess.Popen(command, cwd=trap.parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving https://127.0.0.1:")
        process.terminate()
    assert not marker.exists()
