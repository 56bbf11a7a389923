"""The log: what a line says, and that a reader that does not read it cannot stop the agent."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import socket
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison import events
from jettison.agent.sinks.log import LogSink
from jettison.engine.node.evictions import Eviction
from jettison.engine.node.facts import PodsRanked, ReclaimAttempted, ThresholdCrossed, ThresholdMet
from jettison.engine.node.signals import Resource, Signal
from jettison.engine.node.snapshot import Reading
from jettison.engine.node.thresholds import Threshold
from jettison.engine.numbers.quantity import parse
from jettison.events import Fact
from tests.builders import MI, pod

NOON_NS = 1893456000 * 10**9
EVICTION = Eviction(pod("web"), 'The node was "low". ', 1, "memory.available")
CROSSED = ThresholdCrossed(Threshold(Signal.MEMORY_AVAILABLE, parse("100Mi")), Reading(96 * MI, 512 * MI, None))


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Reading end, writing end."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def lines(fd: int) -> list[bytes]:
    os.set_blocking(fd, False)
    data = b""
    try:
        while piece := os.read(fd, 65536):
            data += piece
    except BlockingIOError:
        pass
    return data.splitlines(keepends=True)


def test_a_pipe_gets_json(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sink = LogSink(writing)

    sink.take(events.EvictionStarted(EVICTION, 7), NOON_NS)

    (line,) = lines(reading)
    assert json.loads(line) == {
        "time": "2030-01-01T00:00:00.000Z",
        "level": "warning",
        "event": "eviction_started",
        "pod": "default/web",
        "uid": "web",
        "reason": "Evicted",
        "signal": "memory.available",
        "grace_seconds": 1,
        "message": 'The node was "low". ',
        "decided_ns": 7,
    }
    sink.close()


def test_what_is_said_at_every_look_is_logged_every_ten_seconds(pipe: tuple[int, int]) -> None:
    """While a pod ends the node is looked at ten times a second; a new shortage is told of at once."""
    reading, writing = pipe
    sink = LogSink(writing)
    attempted = ReclaimAttempted(Signal.MEMORY_AVAILABLE, Resource.MEMORY)

    for tenths in range(205):
        sink.take(attempted, NOON_NS + tenths * 10**8)
    sink.take(ThresholdMet(CROSSED.threshold, CROSSED.reading), NOON_NS + 21 * 10**9)
    sink.take(attempted, NOON_NS + 21 * 10**9)

    seconds = [json.loads(line)["time"][17:19] for line in lines(reading) if b"reclaim_attempted" in line]
    assert seconds == ["00", "10", "20", "21"]
    sink.close()


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The end a person looks at, the end a program writes to."""
    person, program = pty.openpty()
    tty.setraw(program)
    yield person, program
    os.close(person)
    os.close(program)


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (
            events.EvictionStarted(EVICTION, 7),
            (
                r"level=warning event=eviction_started pod=default/web uid=web reason=Evicted signal=memory.available"
                r' grace_seconds=1 message="The node was \"low\"." decided=0.0ms'
            ),
        ),
        (
            CROSSED,
            ("level=warning event=threshold_crossed threshold=memory.available<100Mi available=96Mi capacity=512Mi"),
        ),
        (
            events.AgentStarted("n", ("no cgroups", "=")),
            r'level=info event=agent_started node=n lacks="no cgroups; ="',
        ),
        (events.ActionFailed("ü", "\udcff"), r'level=error event=action_failed what=ü why="\\udcff"'),
        (events.OutOfMemoryKill(None, "", 2), "level=error event=out_of_memory_kill kills=2"),
        (
            events.ActionFailed("a\x1b[2Jb", "one\ntwo"),
            r'level=error event=action_failed what="a\x1b[2Jb" why="one\ntwo"',
        ),
    ],
)
def test_a_terminal_gets_logfmt(terminal: tuple[int, int], fact: Fact, text: str) -> None:
    person, program = terminal
    sink = LogSink(program)

    sink.take(fact, NOON_NS)

    assert lines(person) == [f"time=2030-01-01T00:00:00.000Z {text}\n".encode()]
    sink.close()


def test_amounts_are_told_in_units_and_times_to_the_millisecond(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sink = LogSink(writing)

    sink.take(CROSSED, NOON_NS + 1_234_567)

    said = json.loads(lines(reading)[0])
    assert (said["time"], said["available"], said["capacity"]) == ("2030-01-01T00:00:00.001Z", "96Mi", "512Mi")
    sink.close()


def test_alarms_and_rankings_are_for_the_curious(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    quiet, verbose = LogSink(writing), LogSink(writing, is_verbose=True)
    for sink in (quiet, verbose):
        sink.take(events.AlarmRaised("psi"), NOON_NS)
        sink.take(PodsRanked(Signal.PID_AVAILABLE, 3, {}), NOON_NS)
        sink.close()

    assert [json.loads(line)["event"] for line in lines(reading)] == ["alarm_raised", "pods_ranked"]


def flood(sink: LogSink, count: int = 20_000) -> None:
    """A storm of facts. A sink that waited for its reader would never come back from it."""
    for number in range(count):
        sink.take(events.ActionFailed("evict", f"reason {number}"), NOON_NS)


def test_a_reader_that_does_not_read_stops_no_other_and_is_told_what_it_missed(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sink = LogSink(writing, buffer_bytes=10_000)

    flood(sink)
    assert sink.dropped > 10_000
    first = lines(reading)
    sink.flush(NOON_NS)
    rest = lines(reading)

    said = [json.loads(line) for line in [*first, *rest]]
    numbers = [int(each["why"].split()[1]) for each in said[:-1]]
    assert numbers == list(range(len(numbers)))
    assert said[-1] == {
        "time": "2030-01-01T00:00:00.000Z",
        "level": "warning",
        "event": "log_lines_dropped",
        "count": 20_000 - len(numbers),
    }
    assert sink.dropped == 20_000 - len(numbers)
    sink.close()


def test_what_waited_is_written_when_the_reader_wakes_up_and_nothing_else_happens(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe

    async def scenario() -> list[bytes]:
        sink = LogSink(writing, buffer_bytes=10_000, retry_seconds=0.02)
        flood(sink)
        found: list[bytes] = []
        async with asyncio.timeout(30):
            while not found or b"log_lines_dropped" not in found[-1]:
                await asyncio.sleep(0.01)
                found += lines(reading)
        # No timer is left once everything is written.
        assert sink._retry is None
        sink.close()
        return found

    assert json.loads(asyncio.run(scenario())[-1])["event"] == "log_lines_dropped"


def test_a_log_that_is_closed_tries_no_more(pipe: tuple[int, int]) -> None:
    reading, writing = pipe

    async def scenario() -> None:
        sink = LogSink(writing, buffer_bytes=10_000, retry_seconds=0.01)
        flood(sink)
        sink.close()
        lines(reading)
        await asyncio.sleep(0.05)

    asyncio.run(scenario())

    assert not select.select([reading], [], [], 0)[0]


def test_a_stopped_terminal_stops_no_process(terminal: tuple[int, int]) -> None:
    person, program = terminal
    sink = LogSink(program, buffer_bytes=10_000)

    flood(sink)

    assert sink.dropped > 0
    assert lines(person)
    sink.close()


def test_a_socket_that_is_not_read_stops_no_process() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sink = LogSink(ours.fileno(), buffer_bytes=10_000)

        flood(sink)

        assert sink.dropped > 0
        assert json.loads(theirs.recv(65536).splitlines()[0])["why"] == "reason 0"
        sink.close()
        assert ours.getblocking()


def test_the_descriptor_stays_as_its_owner_has_it(pipe: tuple[int, int]) -> None:
    _, writing = pipe
    sink = LogSink(writing)
    sink.take(CROSSED, NOON_NS)

    assert os.get_blocking(writing)

    sink.close()
    os.fstat(writing)


def test_where_the_descriptor_cannot_be_opened_again_only_what_fits_is_written(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = pipe

    def refused(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    sink = LogSink(writing, buffer_bytes=10_000)
    monkeypatch.undo()

    flood(sink)

    assert sink.dropped > 0
    assert json.loads(lines(reading)[0])["why"] == "reason 0"
    assert not select.select([reading], [], [], 0)[0]
    sink.close()


def test_a_reader_that_is_gone_harms_no_other() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    sink = LogSink(writing)

    flood(sink, 100)

    assert sink.dropped == 0
    sink.close()
    os.close(writing)


def test_others_may_write_to_the_same_file(tmp_path: Path) -> None:
    """As `jettison up 2>log` does, which has more to say than facts: no append mode, one position for all."""
    with (tmp_path / "log").open("w") as file:
        sink = LogSink(file.fileno())
        sink.take(events.AgentStopped("n"), NOON_NS)
        os.write(file.fileno(), b"between\n")
        sink.take(events.AgentStopped("n"), NOON_NS)
        sink.close()

    first, between, last = (tmp_path / "log").read_text().splitlines()
    assert between == "between"
    assert json.loads(first) == json.loads(last)


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    with path.open("a") as file:
        sink = LogSink(file.fileno())
        sink.take(events.AgentStopped("n"), NOON_NS)
        sink.close()

    before, line = path.read_text().splitlines()
    assert before == "before"
    assert json.loads(line)["event"] == "agent_stopped"


def test_a_line_that_was_cut_is_finished_before_the_next_begins(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    sink = LogSink(writing, buffer_bytes=10**6)
    long = "x" * 50_000
    for _ in range(4):
        sink.take(events.ActionFailed("w", long), NOON_NS)

    found = lines(reading)
    while not all(line.endswith(b"\n") for line in found) or len(found) < 4:
        sink.flush(NOON_NS)
        found = b"".join([*found, *lines(reading)]).splitlines(keepends=True)

    assert [json.loads(line)["why"] for line in found] == [long] * 4
    sink.close()
