"""What a running agent tells: its socket, its port, its card; and that it protects itself and leaves nothing behind."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jettison.agent.http.client import fetch
from jettison.errors import ObservationError
from jettison.node.card import NodeCard, read_card, short_path, write_card
from jettison.runtimes.linux.cgroups.mounts import discover
from tests.cli.guarded import FLAGS, NOBODY, Guarded, after_an_eviction, as_nobody, line_of_nobody, pod, shell
from tests.cli.running import run
from tests.live.quick_start import finished

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make cgroups")


@pytest.mark.parametrize(
    "path", ["/healthz", "/metrics", "/configz", "/stats/summary", "/pods", "/rank", "/journal?limit=1"]
)
def test_every_path_is_served(guarded: Guarded, path: str) -> None:
    answer = fetch(guarded.node_state / "agent.sock", path)
    assert (answer.status, bool(answer.body)) == (200, True)


def test_the_numbers_are_of_this_node(guarded: Guarded) -> None:
    metrics = fetch(guarded.node_state / "agent.sock", "/metrics").body.decode()
    assert 'kubelet_evictions{eviction_signal="memory.available"} 1' in metrics
    assert "jettison_journal_failures_total 0" in metrics
    assert guarded.ask("/configz")["kubeletconfig"]["evictionHard"] == {"memory.available": "32Mi"}


def test_only_the_owner_may_ask(guarded: Guarded) -> None:
    assert stat.S_IMODE((guarded.node_state / "agent.sock").stat().st_mode) == 0o600


def test_the_socket_goes_with_the_agent(unguarded: Guarded) -> None:
    assert not (unguarded.node_state / "agent.sock").exists()
    with pytest.raises(ObservationError):
        fetch(unguarded.node_state / "agent.sock", "/healthz")


def test_a_second_agent_is_refused(guarded: Guarded) -> None:
    """And the first one does not notice."""
    done = guarded.run("up", *FLAGS)

    assert done.returncode == 1
    assert "in use by another agent" in done.stderr
    assert fetch(guarded.node_state / "agent.sock", "/healthz").status == 200


def test_the_card_tells_where_the_node_is(guarded: Guarded) -> None:
    card = read_card(guarded.node_state)
    assert card is not None
    assert guarded.process is not None
    assert (card.node_dir, card.pid, card.is_dry_run) == ("files", guarded.process.pid, False)


def test_a_card_survives_writing_and_reading(tmp_path: Path) -> None:
    assert read_card(tmp_path) is None
    card = NodeCard("/srv/node", 1, 2, is_dry_run=True, lacks=("no wings",))
    write_card(tmp_path, card)
    assert read_card(tmp_path) == card
    assert short_path(tmp_path / "files", tmp_path) == "files"
    assert short_path(Path("/srv/node"), tmp_path) == "/srv/node"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"node_dir":1}', b"\xff\xfe"])
def test_a_card_that_is_none_is_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "node.json").write_bytes(data)
    with pytest.raises(ObservationError, match="cannot understand"):
        read_card(tmp_path)


def test_the_loopback_serves_the_same(tmp_path: Path) -> None:
    node = Guarded(tmp_path, (*FLAGS, "--listen", "127.0.0.1:0", "--dry-run"))
    node.up()
    try:
        said = next(line for line in node.log.read_text().splitlines() if line.startswith("listening on "))
        url = said.removeprefix("listening on ")
        with urllib.request.urlopen(f"{url}/healthz", timeout=30) as answer:
            assert answer.read() == b"ok\n"
        foreign = urllib.request.Request(f"{url}/pods", headers={"Host": "attacker.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(foreign, timeout=30)
        doctor = json.loads(node.here("doctor", "-o", "json").stdout)
        assert any(check["finding"].endswith("in a dry run: no pod is evicted") for check in doctor["checks"])
    finally:
        node.stop()


@pytest.mark.parametrize("address", ["0.0.0.0:80", "example.org:80", ":80", "127.0.0.1", "127.0.0.1:x", "[::1]:65536"])
def test_nothing_but_the_loopback_is_listened_on(tmp_path: Path, address: str) -> None:
    """The socket asks no client for an identity."""
    done = run("up", "--state-dir", str(tmp_path), "--listen", address)

    assert done.exit_code == 2
    assert done.stderr.startswith("error: invalid value for `--listen`: `")
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told_and_nothing_is_left(guarded: Guarded, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["up", "--state-dir", str(tmp_path), "--node-name", "taken", *FLAGS]
        done = finished(*words, "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"error: cannot listen on `127.0.0.1:{port}`" in done.stderr
    assert not (tmp_path / "node" / "taken" / "agent.sock").exists()
    tree = discover().holding("memory")
    assert tree is None or not list(tree.mount_point.glob("jettison/taken*"))


@pytest.mark.parametrize("where", ["/proc/none", "/dev/null/state"])
def test_a_state_directory_that_cannot_be_had_is_told(where: str) -> None:
    done = finished("up", "--state-dir", where, "--node-name", "n1")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: cannot create `{where}/node/n1`: ")


@needs_root
def test_the_agent_has_a_cgroup_of_its_own_and_takes_it_along(tmp_path: Path) -> None:
    """Beside the node's: what the agent uses is not the pods'."""
    tree = discover().holding("memory")
    if tree is None:
        pytest.skip("no memory controller")
    node = Guarded(tmp_path, FLAGS)
    node.write(pod("quiet", shell("main", "sleep 600")))
    node.up()
    node.wait(lambda: node.pids("quiet"), "the pod")
    assert node.process is not None
    try:
        inside = (tree.mount_point / f"jettison/{node.name}-agent/cgroup.procs").read_text().split()
        names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in inside if pid != str(node.process.pid)}
        assert str(node.process.pid) in inside
        # What has started the pod is the agent's, for half a minute.
        assert set(names.values()) <= {"jettison-start"}, names
    finally:
        node.stop()
    assert not list(tree.mount_point.glob(f"jettison/{node.name}*"))


def test_nothing_is_imported_once_the_agent_is_ready() -> None:
    """Pods were started, restarted, refused and evicted, and every path was asked for.

    By an agent of its own: one that starts quickly has everything loaded.
    """
    with after_an_eviction(starts_quickly=False) as node:
        for path in ("/healthz", "/metrics", "/configz", "/stats/summary", "/pods", "/rank", "/journal", "/nowhere"):
            fetch(node.node_state / "agent.sock", path)
        assert [fact for fact in node.facts("action_failed") if "loaded" in fact["what"]] == []


@needs_root
def test_a_node_of_a_user_without_rights() -> None:
    """Process groups and /proc; that user and root may give the commands, and no other user."""
    with TemporaryDirectory(prefix="jettison-cli-") as directory:
        os.chown(directory, NOBODY, NOBODY)
        node = Guarded(Path(directory), FLAGS)
        node.write(pod("web", shell("main", "echo hello; sleep 600")))
        line = line_of_nobody("up", *node.where, "--manifests", str(node.manifests), *FLAGS)
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(line, stdout=log, stderr=log, cwd="/")
        try:
            node.wait(lambda: node.ask("/rank") is not None and node.pids("web"), "the agent")

            assert "default    web   1/1    Running" in as_nobody("pods", *node.where).stdout
            assert "default/web" in as_nobody("top", *node.where).stdout
            assert as_nobody("logs", "web", *node.where).stdout == "hello\n"
            assert as_nobody("why", "web", *node.where).stdout.startswith("default/web would not be evicted now")
            assert "default    web   1/1    Running" in node.here("pods").stdout
            notes = [line for line in node.here("doctor").stdout.splitlines() if line.startswith("note")]
            assert any("no cgroups" in line for line in notes)
        finally:
            (node.manifests / "default-web.json").unlink()
            node.wait(lambda: not node.records(), "the pod to go")
            node.down()


def test_no_other_user_reads_or_writes_what_an_agent_keeps(tmp_path: Path) -> None:
    """Whatever the umask; only the directories that pods of other users pass through are open for that."""
    before = os.umask(0)
    try:
        node = Guarded(tmp_path, FLAGS)
        node.up()
        found = {each: stat.S_IMODE(each.stat().st_mode) for each in node.state.rglob("*")}
        node.stop()
    finally:
        os.umask(before)
    assert [each for each, mode in found.items() if each.is_file() and mode & 0o077] == []
    assert [each for each, mode in found.items() if each.is_dir() and mode & 0o022] == []
