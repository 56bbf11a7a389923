"""What all commands that look at a node have in common: which node is meant, and which user may ask."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from jettison.cli.inspect.watched_node import WatchedNode
from jettison.cli.program import program
from jettison.errors import ObservationError
from jettison.node.places import default_node_name, default_state_dir
from tests.cli.guarded import Guarded
from tests.cli.running import process, run

COMMANDS = ("pods", "top", "why", "journal", "logs", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = run(command, "--help")

    assert done.exit_code == 0
    assert done.stdout.startswith(f"Usage: jettison {command}")
    assert all(option in done.stdout for option in ("--state-dir", "--node-name"))


def test_a_node_need_not_be_named_when_there_is_one(guarded: Guarded) -> None:
    """And its state directory may be told by the environment."""
    by_option = process("pods", "--state-dir", str(guarded.state))
    by_environment = process("pods", env={**os.environ, "JETTISON_STATE_DIR": str(guarded.state)})

    for done in (by_option, by_environment):
        assert done.returncode == 0
        assert "--node-name" not in done.stderr
        assert "shop         leak" in done.stdout


def test_which_nodes_there_are_is_told(guarded: Guarded, tmp_path: Path) -> None:
    unknown = guarded.here("pods", "--node-name", "nowhere")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert unknown.stderr == f"error: there is no node `nowhere` in `{guarded.state}`, there is {guarded.name}\n"

    nothing = run("pods", "--state-dir", str(tmp_path), "--node-name", "n1")
    assert (nothing.exit_code, nothing.stderr) == (
        2,
        f"error: there is no node `n1` in `{tmp_path}`; `jettison up` makes one\n",
    )

    for name in ("one", "two"):
        (tmp_path / "node" / name).mkdir(parents=True)
    several = run("top", "--once", "--state-dir", str(tmp_path))
    assert (several.exit_code, several.stderr) == (2, "error: which node is meant? --node-name is one of one, two\n")
    down = run("down", "--state-dir", str(tmp_path))
    assert (down.exit_code, down.stderr) == (1, "error: no agent runs for any of the nodes one, two\n")


def test_of_several_nodes_all_pods_are_shown(guarded: Guarded, tmp_path: Path) -> None:
    """Two agents that are gone have left the same records; the column says whose a pod is."""
    for name in ("one", "two"):
        shutil.copytree(guarded.state / "node" / guarded.name / "pods", tmp_path / "node" / name / "pods")

    both = run("pods", "--state-dir", str(tmp_path), "-n", "shop")

    assert both.exit_code == 0, both.stderr
    head, *rows = both.stdout.splitlines()
    assert head.split()[:3] == ["NODE", "NAMESPACE", "NAME"]
    assert [row.split()[:3] for row in rows if "leak" in row] == [["one", "shop", "leak"], ["two", "shop", "leak"]]
    one = run("pods", "--state-dir", str(tmp_path), "-n", "shop", "--node-name", "one")
    assert one.stdout.startswith("NAMESPACE")
    listed = json.loads(run("pods", "--state-dir", str(tmp_path), "-n", "shop", "-o", "json").stdout)
    assert len(listed["items"]) == 2 * len(one.stdout.splitlines()[1:])


def test_of_several_nodes_no_event_is_an_error_that_names_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "node" / name).mkdir(parents=True)
    done = run("events", "--state-dir", str(tmp_path))
    assert (done.exit_code, done.stderr) == (1, "error: no agent runs for node `one`\n")


def test_without_a_home_a_state_directory_must_be_named() -> None:
    """As for the user of a service."""
    program = (
        "import os, pwd\nfrom jettison.cli import main\n"
        "os.geteuid = os.getuid = lambda: 4711\npwd.getpwuid = {}.__getitem__\nmain()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_STATE_HOME")}
    line = [sys.executable, "-c", program, "pods"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False, env=environment)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: there is no home directory: give the directory of the node's state with --state-dir\n"


def test_a_socket_without_a_listener_is_no_agent(tmp_path: Path) -> None:
    """An agent that was killed leaves it behind."""
    node = WatchedNode("n1", tmp_path)
    with pytest.raises(ObservationError, match="no agent runs for node `n1`"):
        node.ask("/pods")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "agent.sock"))
    with pytest.raises(ObservationError, match="no agent runs for node `n1`"):
        node.ask("/pods")


def test_the_agents_own_words_are_passed_on(guarded: Guarded) -> None:
    with pytest.raises(ObservationError, match=r"the agent of node `.*` says: no such path, there are /configz"):
        WatchedNode(guarded.name, guarded.node_state).ask("/nowhere")


def test_a_node_whose_agent_runs_goes_before_one_that_is_dead(guarded: Guarded, tmp_path: Path) -> None:
    """Also before one that has this host's name."""
    (tmp_path / "node" / default_node_name()).mkdir(parents=True)
    (tmp_path / "node" / guarded.name).symlink_to(guarded.node_state)

    done = run("pods", "--state-dir", str(tmp_path))

    assert "leak" in done.stdout
    assert done.stderr.startswith(
        f"note: this is node `{guarded.name}`, whose agent runs; there is also {default_node_name()}\n"
    )


@pytest.mark.parametrize("command", ["why", "journal", "logs"])
def test_the_node_that_knows_a_pod_is_found(guarded: Guarded, unguarded: Guarded, tmp_path: Path, command: str) -> None:
    (tmp_path / "node" / "a").mkdir(parents=True)
    (tmp_path / "node" / "b").symlink_to(guarded.node_state)

    done = run(command, "shop/leak", "--state-dir", str(tmp_path))
    assert (done.exit_code, done.stdout) == (0, guarded.here(command, "shop/leak").stdout)
    nobody = run(command, "nobody", "--state-dir", str(tmp_path))
    assert nobody.exit_code == 1

    (tmp_path / "node" / "c").symlink_to(unguarded.node_state)
    several = run(command, "shop/leak", "--state-dir", str(tmp_path))
    assert several.exit_code == 0
    assert "note: this is from node `" in several.stderr
    assert "which --node-name chooses" in several.stderr


def test_every_command_takes_the_state_directory_in_the_same_way() -> None:
    context = click.Context(program)
    commands = {name: program.get_command(context, name) for name in program.list_commands(context)}
    options = {
        name: (option.envvar, option.default, option.help)
        for name, command in commands.items()
        for option in getattr(command, "params", ())
        if isinstance(option, click.Option) and option.name == "state_dir"
    }

    assert {"up", "node", "serve", *COMMANDS} <= options.keys()
    assert set(options.values()) == {("JETTISON_STATE_DIR", default_state_dir, options["up"][2])}


def test_serve_takes_it_from_the_environment(tmp_path: Path) -> None:
    environment = {**os.environ, "JETTISON_STATE_DIR": str(tmp_path / "state")}
    line = [sys.executable, "-m", "jettison", "serve", "--listen", "127.0.0.1:0", "--controllers=-"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        server.terminate()
    assert str(tmp_path / "state" / "admin.kubeconfig") in said


def _bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)
        listener.bind(path.name)


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": _bound,
    "a loop": lambda path: path.symlink_to(path),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_what_is_in_the_place_of_a_file_is_neither_waited_for_nor_a_traceback(
    guarded: Guarded, tmp_path: Path, make: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journal, records, history, card, holds and logs: every file of a node, one after the other all of them."""
    monkeypatch.chdir(tmp_path)
    node = tmp_path / "node" / "one"
    shutil.copytree(guarded.state / "node" / guarded.name, node, symlinks=True, ignore=lambda *_: ["agent.sock"])
    files = [path for path in node.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".journal", ".log"}
    for path in files:
        path.unlink()
        make(path)
    for name in ("history.json", "held.json"):
        if not os.path.lexists(node / name):
            make(node / name)
    for words in (["pods"], ["why", "leak"], ["journal"], ["logs", "leak"], ["events"], ["top", "--once"], ["doctor"]):
        done = run(*words, "--state-dir", str(tmp_path))
        assert done.exit_code in (0, 1, 2), (words, done.stderr)
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
        assert "Traceback" not in done.stderr


def test_a_damaged_file_hides_nothing_that_other_files_say(guarded: Guarded) -> None:
    """Of an agent that runs, and has all of it in its memory."""
    damaged = [guarded.node_state / name for name in ("history.json", "held.json")]
    before = [path.read_bytes() if path.exists() else None for path in damaged]
    pods = guarded.here("pods").stdout
    try:
        for path in damaged:
            path.write_bytes(b'{"a": [[')
        listed, top, told = (guarded.here(*words) for words in (["pods"], ["top", "--once"], ["next"]))
    finally:
        for path, data in zip(damaged, before, strict=True):
            path.unlink() if data is None else path.write_bytes(data)

    assert (listed.exit_code, top.exit_code, told.exit_code) == (0, 0, 0), (listed.stderr, top.stderr, told.stderr)
    assert listed.stdout.split("\n")[0] == pods.split("\n")[0]
    assert "warning: which pods were deleted by hand cannot be read: " in listed.stderr
    assert "the history cannot be read: " in top.stdout + top.stderr
    assert "warning: the history cannot be read: " in told.stderr
