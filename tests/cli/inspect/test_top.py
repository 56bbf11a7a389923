"""`jettison top`: its picture, and how it behaves on a real (pseudo) terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.agent.agent import AgentStep
from jettison.agent.http.endpoints import rank_document
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recorder import JournalRecorder
from jettison.cli.inspect.top import Key, keys_of
from jettison.cli.inspect.top_frame import NodeView, gauge, page
from jettison.clock import Stamp
from jettison.engine.node.decide import decide
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import MemoryStats, NodeStats
from tests import builders
from tests.agent.scripted_runtime import HandClock
from tests.builders import MI, policy, snapshot
from tests.cli.guarded import FLAGS, PATIENCE, Guarded, pod, shell
from tests.cli.running import run

POLICY = policy({"memory.available": "10Mi"})

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"


def test_one_picture(guarded: Guarded) -> None:
    done = guarded.run("top", "--once")

    headline, _, *readings = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert headline == f"node {guarded.name}   MemoryPressure   4 pods   measured now"
    assert readings[0].split() == ["SIGNAL", "AVAILABLE", "CAPACITY", "THRESHOLD", "HEADROOM", "STATE"]
    assert readings[1].startswith("memory.available ")
    assert " 128Mi  [" in readings[1]
    assert "hard 32Mi" in readings[1]
    assert readings[1].endswith("clear")

    order = done.stdout.partition("eviction order for memory.available\n")[2].splitlines()
    assert order[0].split() == ["#", "POD", "EXCEEDS", "PRIORITY", "USAGE", "REQUEST", "EXCESS", "QOS", "NOTE"]
    # The only one that uses more than it asked for.
    assert order[1].split()[:3] == ["1", "kube-system/guard", "yes"]
    assert order[1].endswith("never evicted")
    assert {line.split()[1] for line in order[2:]} == {"default/flaky", "default/web", "shop/web"}


def test_without_a_terminal_there_is_one_picture_too(guarded: Guarded) -> None:
    assert guarded.run("top").stdout.count("eviction order") == 1


def test_without_the_agent_it_is_the_last_step_on_record(unguarded: Guarded) -> None:
    done = unguarded.run("top", "--once")

    assert done.returncode == 0
    assert done.stderr == f"note: no agent runs for node `{unguarded.name}`: this is the last step on record\n"
    assert done.stdout.splitlines()[0].startswith(f"node {unguarded.name}   MemoryPressure")
    assert "eviction order for memory.available" in done.stdout


def test_readings_are_fresh_although_the_agent_looks_every_ten_seconds(guarded: Guarded) -> None:
    """A command that watches makes it look."""
    for _ in range(4):
        assert guarded.here("top").stdout.splitlines()[0].endswith("measured now")
        time.sleep(0.7)


def test_the_order_for_another_signal(guarded: Guarded) -> None:
    assert "eviction order for pid.available" in guarded.here("top", "--signal", "pid.available").stdout

    assert guarded.here("top", "--signal", "moon").exit_code == 2


def test_a_signal_that_is_not_measured(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "node" / "n1" / "journal")
    seen = snapshot(1893456000, NodeStats("n1", MemoryStats(None, 50 * MI, 50 * MI, 50 * MI)))
    recorder = JournalRecorder(journal, tmp_path / "history", POLICY, HandClock(), "n1", lambda _: None)
    recorder.step(
        AgentStep(History(), seen, decide(POLICY, History(), seen), None, Stamp.of(HandClock()), has_effect=True)
    )
    journal.close()

    done = run("top", "--state-dir", str(tmp_path), "--signal", "pid.available")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "error: `pid.available` is not measured on node `n1`\n"
    shown = run("top", "--state-dir", str(tmp_path)).stdout
    assert "memory.available       50Mi     100Mi  [##########........|.]  hard 10Mi      40Mi  clear" in shown
    assert shown.endswith("there are no pods\n")


def test_json_has_the_same_numbers(guarded: Guarded, unguarded: Guarded) -> None:
    for node, is_live in ((guarded, True), (unguarded, False)):
        document = node.answer("top")
        assert (document["version"], document["kind"], document["live"]) == (1, "NodeView", is_live)
        assert document["conditions"] == ["MemoryPressure"]
        assert document["node"] == node.name
        memory = next(each for each in document["signals"] if each["signal"] == "memory.available")
        assert memory["capacity"] == 128 * 2**20
        assert memory["thresholds"] == [
            {"threshold": "memory.available<32Mi", "isHard": True, "amount": 32 * 2**20, "isCrossed": False}
        ]
        assert {each["name"] for each in memory["order"]} >= {"flaky", "guard", "web"}
        assert bool(document["notes"]) is not is_live


def test_a_soft_threshold_that_is_crossed(tmp_path: Path) -> None:
    """Everything a picture can say about one: what is short comes first, and for how long."""
    soft = ("--eviction-soft", "memory.available<127Mi", "--eviction-soft-grace-period", "memory.available=10m")
    node = Guarded(tmp_path, (*FLAGS, *soft))
    hold = "import time; held = bytearray(b'x') * (20 << 20); time.sleep(600)"
    node.write(pod("holder", {"name": "main", "command": [sys.executable, "-c", hold]}))
    node.up()
    seen: list[str] = []

    def is_crossed() -> bool:
        # The process of a pod that starts can cross the threshold, fall below it when it executes, and cross it again.
        seen[:] = [line for line in node.here("top").stdout.splitlines() if "soft" in line]
        return any("crossed for" in line for line in seen)

    try:
        node.wait(is_crossed, "the crossing")
        assert "soft 127Mi for 10m0s" in seen[0]
        assert seen[0].split()[-4].startswith("-"), seen[0]
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("available", "capacity", "amount", "expected"),
    [
        (100, 100, 10, "[..................|.]"),
        (0, 100, 10, "[##################|#]"),
        (50, 100, 10, "[##########........|.]"),
        (100, 100, 0, "[...................|]"),
        (100, 100, 100, "[|...................]"),
        (-5, 100, 500, "[|###################]"),
        (5, 0, 1, ""),
    ],
)
def test_gauge(available: int, capacity: int, amount: int, expected: str) -> None:
    assert gauge(available, capacity, amount) == expected


def test_a_node_of_which_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "node" / "n1").mkdir(parents=True)
    done = run("top", "--state-dir", str(tmp_path))

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "error: no agent runs for node `n1`, and no step is on record\n"


def crowded(count: int) -> NodeView:
    """A node with three thresholds and so many pods, of which none uses what another one does."""
    pods = [builders.pod(f"production-worker-with-a-long-name-{number:02d}") for number in range(count)]
    usages = {each.uid: builders.memory_used((count - place) * MI) for place, each in enumerate(pods)}
    wishes = policy({"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"})
    return NodeView(
        rank_document(wishes, snapshot(1893456000, builders.node(memory=500 * MI), pods, usages)), History()
    )


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6, 10, 15, 24, 30, 60])
@pytest.mark.parametrize("columns", [1, 10, 20, 40, 60, 79, 80, 120, 250])
@pytest.mark.parametrize("count", [0, 1, 30])
def test_a_page_fits_every_window(columns: int, rows: int, count: int) -> None:
    view = crowded(count)
    for first in (0, 7, 10**9):
        shown = page(view, None, first, columns, rows)
        assert len(shown.lines) == rows
        if columns >= 40:
            assert max(len(line.text) for line in shown.lines[1:]) <= columns if rows > 1 else True
        assert 0 <= shown.first <= max(0, count - 1)


def test_at_80_of_24_nothing_that_matters_is_cut_off() -> None:
    lines = [line.text for line in page(crowded(30), None, 0, 80, 24).lines]

    head = next(line for line in lines if line.startswith("SIGNAL"))
    assert head.split() == ["SIGNAL", "AVAILABLE", "THRESHOLD", "HEADROOM", "STATE"] or "CAPACITY" in head
    memory = next(line for line in lines if line.startswith("memory.available"))
    assert memory.split()[-4:] == ["hard", "100Mi", "400Mi", "clear"]
    order = next(line for line in lines if line.startswith(" #"))
    assert {"POD", "USAGE", "EXCESS", "NOTE"} <= set(order.split())
    assert lines[-1] == "q quit   s next signal   ↑↓ jk PgUp PgDn g G scroll"


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (120, 20)])
def test_every_pod_can_be_scrolled_to(columns: int, rows: int) -> None:
    """And it is said which are shown."""
    view, seen, first = crowded(30), set(), 0
    while True:
        shown = page(view, None, first, columns, rows)
        places = [
            int(line.text.split()[0])
            for line in shown.lines
            if line.text.split()[:1] and line.text.split()[0].isdigit()
        ]
        scope = f"pods {shown.first + 1}–{shown.first + len(places)} of 30"
        assert any(line.text.startswith(scope) for line in shown.lines)
        seen |= set(places)
        if places[-1] == 30:
            break
        first = shown.first + shown.step
    assert seen == set(range(1, 31))


def test_a_name_is_cut_in_its_middle() -> None:
    lines = [line.text for line in page(crowded(30), None, 0, 40, 10).lines]
    assert any("…" in line and "name-00" in line for line in lines)


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("sjk", [Key.SIGNAL, Key.DOWN, Key.UP]),
        ("\x1b[A\x1bOB", [Key.UP, Key.DOWN]),
        ("\x1b[5~\x1b[6~ ", [Key.PAGE_UP, Key.PAGE_DOWN, Key.PAGE_DOWN]),
        ("\x1b[H\x1b[4~gG", [Key.HOME, Key.END, Key.HOME, Key.END]),
        ("\x1b[1;5s\x1b[3~\x1bOq", []),
        ("xyzé\x00", []),
    ],
)
def test_keys(typed: str, keys: list[Key]) -> None:
    assert keys_of(typed) == keys


class Terminal:
    """`jettison top`, or another command, on a terminal of 30 rows of 100 columns, with a test in front of it."""

    def __init__(
        self, node: Guarded, *arguments: str, command: str = "top", environment: dict[str, str] | None = None
    ) -> None:
        self._master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.resize(30, 100)
        line = [sys.executable, "-m", "jettison", command, *node.where, *arguments]
        settings = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(
            line, stdin=slave, stdout=slave, stderr=subprocess.PIPE, env=settings, start_new_session=True
        )
        self._slave = slave
        self.seen = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, text: str, count: int = 1) -> str:
        """What was written up to the n-th time from now on that this text came."""
        start, deadline = len(self.seen), time.monotonic() + PATIENCE
        while self.seen[start:].count(text) < count:
            assert time.monotonic() < deadline, f"no `{text}` in {self.seen[start:]!r}"
            self._read()
        return self.seen[start:]

    def end(self) -> int:
        """Read what is left; the exit code."""
        while self.process.poll() is None:
            self._read()
        while select.select([self._master], [], [], 0.1)[0]:
            self._read()
        return self.process.returncode

    @property
    def is_as_before(self) -> bool:
        """The settings, and the page."""
        return termios.tcgetattr(self._slave) == self.before and self.seen.endswith(LEAVE)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._master)
        os.close(self._slave)

    def _read(self) -> None:
        if select.select([self._master], [], [], 0.1)[0]:
            self.seen += os.read(self._master, 65536).decode()


@pytest.fixture
def terminal(guarded: Guarded) -> Iterator[Terminal]:
    opened = Terminal(guarded, "--interval", "0.2")
    opened.until(HOME)
    yield opened
    opened.close()


def test_on_a_terminal_it_refreshes_in_place(terminal: Terminal) -> None:
    terminal.until("eviction order", count=3)

    assert terminal.seen.startswith(ENTER)
    assert terminal.seen.count(ENTER) == 1
    pictures = terminal.seen.removeprefix(ENTER).split(HOME)[1:-1]
    assert len(pictures) >= 3
    for picture in pictures:
        assert picture.endswith("\x1b[J")
        rows = picture.split("\r\n")
        assert len(rows) <= 30
        assert all("\x1b[K" in row for row in rows)


def test_q_gives_the_terminal_back(terminal: Terminal) -> None:
    assert termios.tcgetattr(terminal._slave) != terminal.before
    terminal.type("q")

    assert terminal.end() == 0
    assert terminal.is_as_before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_so_does_every_other_end(terminal: Terminal, number: signal.Signals, code: int) -> None:
    terminal.process.send_signal(number)

    assert terminal.end() == code
    assert terminal.is_as_before
    assert terminal.process.stderr is not None
    assert terminal.process.stderr.read().strip() == b""


def test_control_z_gives_it_back_for_a_while(terminal: Terminal) -> None:
    """A session of its own has no shell to stop for, so it goes on at once."""
    terminal.process.send_signal(signal.SIGTSTP)
    shown = terminal.until(ENTER)

    assert LEAVE in shown
    terminal.until("eviction order")
    terminal.type("q")
    assert terminal.end() == 0
    assert terminal.is_as_before


def test_s_shows_the_next_signal(terminal: Terminal) -> None:
    terminal.until("eviction order for memory.available")
    terminal.type("s")
    terminal.until("eviction order for allocatableMemory.available")


def test_pods_are_scrolled_at_once_and_a_new_size_is_seen(guarded: Guarded) -> None:
    """Long before the next look at the node."""
    terminal = Terminal(guarded, "--interval", "3000")
    try:
        terminal.until("pods 1–4 of 4")
        terminal.resize(9, 60)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.until("pods 1–3 of 4")
        terminal.type("\x1b[B")
        terminal.until("pods 2–4 of 4")
        terminal.type("g")
        terminal.until("pods 1–3 of 4")
        terminal.type("q")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_a_small_window_shows_what_fits(terminal: Terminal) -> None:
    terminal.resize(5, 40)
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.until(HOME, count=3)

    picture = terminal.seen.split(HOME)[-2]
    rows = picture.removesuffix("\x1b[J").split("\r\n")
    plain = [row.removesuffix("\x1b[K").replace("\x1b[1;31m", "").replace("\x1b[0m", "") for row in rows]
    assert len(rows) == 5
    assert max(map(len, plain)) == 40


def test_colours_can_be_done_without(guarded: Guarded) -> None:
    for environment, is_coloured in (({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)):
        terminal = Terminal(guarded, environment=environment)
        try:
            terminal.until("eviction order")
            assert ("\x1b[1;31m" in terminal.seen) is is_coloured
        finally:
            terminal.close()


def test_it_survives_the_agent_and_sees_it_come_back(tmp_path: Path) -> None:
    node = Guarded(tmp_path, FLAGS)
    node.write(pod("quiet", shell("main", "sleep 600")))
    node.up()
    terminal = Terminal(node, "--interval", "0.2")
    try:
        terminal.until("measured now")
        node.kill()
        terminal.until(f"no agent runs for node `{node.name}`")
        node.up()
        terminal.until("default/quiet")
        terminal.type("q")
        assert terminal.end() == 0
    finally:
        terminal.close()
        node.stop()
