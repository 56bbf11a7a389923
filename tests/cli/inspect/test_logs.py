"""`jettison logs` against a real node, and the parts of it that need a log of a certain shape."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.cli.inspect.logs import LogOutput
from jettison.manifests.times import exact_time_text, parse_time
from jettison.node.logs.log_files import Fate, LogFollower, last_lines, read_from
from jettison.runtimes.host.volumes.logs import rotate
from tests.cli.guarded import FLAGS, PATIENCE, Guarded, as_nobody, pod, shell
from tests.cli.running import run
from tests.live.quick_start import jettison


def test_what_a_container_wrote(guarded: Guarded) -> None:
    done = guarded.run("logs", "shop/leak")
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaking\n", "")


def test_without_the_agent_logs_are_still_written_and_read(unguarded: Guarded) -> None:
    before = unguarded.here("logs", "default/web", "-c", "main").stdout
    time.sleep(0.5)
    after = unguarded.run("logs", "default/web", "-c", "main").stdout

    assert before.startswith("tick 0\ntick 1\n")
    assert after.startswith(before)
    assert len(after) > len(before)


def test_of_several_containers_the_first_is_meant(guarded: Guarded) -> None:
    done = guarded.here("logs", "default/web", "--tail", "1")

    assert done.stdout.startswith("tick ")
    assert done.stderr == "note: container `main` of main, side; -c chooses another\n"
    other = guarded.here("logs", "default/web", "-c", "side")
    assert (other.stdout, other.stderr) == ("aside\n", "")


def test_the_run_before_the_last(guarded: Guarded) -> None:
    assert guarded.here("logs", "flaky").stdout == "second run\n"
    assert guarded.here("logs", "flaky", "--previous").stdout == "first run\n"
    assert guarded.here("logs", "flaky", "-p").stdout == "first run\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nobody",), 1, "there are no logs of a pod `nobody`"),
        (("web",), 1, "which pod is meant? there are default/web, shop/web"),
        (("shop/web", "-c", "x"), 2, "pod `shop/web` has no container `x` with logs, there is main"),
        (("shop/web", "-c", "../../x"), 2, "pod `shop/web` has no container `../../x` with logs, there is main"),
        (("shop/web", "-p"), 1, "of container `main` of pod `shop/web` there is no run before the last one"),
        (("flaky", "-p", "-f"), 2, "--previous has ended, there is nothing to --follow"),
        (("refused",), 1, "there are no logs of a pod `refused`"),
    ],
)
def test_what_cannot_be_had_is_told(guarded: Guarded, arguments: tuple[str, ...], code: int, message: str) -> None:
    done = guarded.here("logs", *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("blocks", "shown"),
    [
        ([b"plain \xc3\xa4\tb\r\n"], b"plain \xc3\xa4\tb\r\n"),
        ([b"\x1b[1;31mred\x1b[0m\n"], b"\x1b[1;31mred\x1b[0m\n\x1b[0m"),
        ([b"\x1b[2J\x1b]0;name\x07\x9b6n\n"], b"\\x1b[2J\\x1b]0;name\\x07\x9b6n\n"),
        ([b"\xc2\x9b2J\x08\x7f\x00\n"], b"\\xc2\\x9b2J\\x08\\x7f\\x00\n"),
        ([b"a\x1b", b"[3", b"2mgreen"], b"a\x1b[32mgreen\x1b[0m"),
        ([b"a\x1b", b"[3", b"2J"], b"a\\x1b[32J"),
        ([b"\xc2", b"\x9b", b"\xc2", b"\xa7"], b"\\xc2\\x9b\xc2\xa7"),
        ([b"\x1b[" + b"1" * 70 + b"m"], b"\\x1b[" + b"1" * 70 + b"m"),
        ([b"end\x1b"], b"end\\x1b"),
    ],
)
def test_a_log_gives_no_orders_to_a_terminal(blocks: list[bytes], shown: bytes) -> None:
    terminal, file = io.BytesIO(), io.BytesIO()
    for output in (LogOutput(terminal, is_terminal=True), LogOutput(file, is_terminal=False)):
        for block in blocks:
            output.write(block)
        output.end()
    assert terminal.getvalue() == shown
    assert file.getvalue() == b"".join(blocks)


def test_a_log_on_a_terminal(tmp_path: Path) -> None:
    directory = tmp_path / "node" / "n" / "files" / "logs" / "default_p_u1" / "main"
    directory.mkdir(parents=True)
    (directory / "0.log").write_bytes(b"\x1b[2Jcleared \x1b[32mgreen")
    words = [str(Path(sys.executable).with_name("jettison")), "logs", "p", "--state-dir", str(tmp_path)]
    ours, theirs = os.openpty()
    subprocess.run([*words, "--node-name", "n"], stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 1000) == b"\\x1b[2Jcleared \x1b[32mgreen\x1b[0m"
    os.close(ours)
    piped = subprocess.run([*words, "--node-name", "n"], stdout=subprocess.PIPE, check=True)
    assert piped.stdout == b"\x1b[2Jcleared \x1b[32mgreen"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_user_that_may_not_read_a_log_is_told_so(guarded: Guarded) -> None:
    done = as_nobody("logs", "leak", *guarded.where)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("permission denied\n")


def test_logs_lie_where_the_node_dir_is(tmp_path: Path) -> None:
    """Also when nothing but the state directory is told, and the agent is down."""
    node = Guarded(tmp_path, (*FLAGS, "--node-dir", str(tmp_path / "elsewhere")))
    (tmp_path / "elsewhere").mkdir()
    node.write(pod("brief", shell("main", "echo done"), restartPolicy="Never"))
    node.up()
    try:
        node.wait(lambda: node.verdicts().get("brief"), "its end")
        node.down()

        assert node.here("logs", "brief").stdout == "done\n"
        assert node.here("logs", "brief", "-f").stdout == "done\n"
    finally:
        node.stop()


class Following:
    """`jettison logs -f` as a process, read line by line."""

    def __init__(self, node: Guarded, *arguments: str) -> None:
        self._complaint = node.directory / f"following-{time.monotonic_ns()}"
        with self._complaint.open("w") as complaint:
            self.process = jettison(["logs", *node.where, "-f", *arguments], complaint)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> tuple[int, str]:
        assert self.process.stdout is not None
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return code, self._complaint.read_text()


def test_following_goes_on_until_control_c(guarded: Guarded) -> None:
    following = Following(guarded, "default/web", "-c", "main", "--tail", "1")
    numbers = [int(following.line().removeprefix("tick ")) for _ in range(5)]
    following.process.send_signal(signal.SIGINT)

    assert numbers == list(range(numbers[0], numbers[0] + 5))
    code, said = following.end()
    assert (code, said.strip()) == (130, "")


def test_following_over_a_restart_until_the_pod_is_gone(tmp_path: Path) -> None:
    node = Guarded(tmp_path, FLAGS)
    may_end = tmp_path / "may-end"
    wait = f"echo first; while [ ! -e {may_end} ]; do sleep 0.1; done; exit 1"
    node.write(pod("flaky", shell("main", f"if [ -e {may_end} ]; then echo second; sleep 600; else {wait}; fi")))
    node.up()
    try:
        node.wait(lambda: "first" in node.here("logs", "flaky").stdout, "the first run")
        following = Following(node, "flaky")
        assert following.line() == "first\n"
        may_end.touch()
        assert following.line() == "second\n"
        (node.manifests / "default-flaky.json").unlink()
        assert following.end() == (0, "note: container `main` was started again, this is run 1\n")
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("files", "count", "expected"),
    [
        (["a\nb\nc\n"], 2, "b\nc\n"),
        (["a\nb\nc"], 2, "b\nc"),
        (["a\nb\nc\n"], 9, "a\nb\nc\n"),
        (["a\nb\nc\n"], 0, ""),
        (["a\nb\n", "c\n"], 1, "c\n"),
        (["a\nb\n", "c\n"], 2, "b\nc\n"),
        (["a\nb", "c\nd\n"], 2, "bc\nd\n"),
        (["a\nb\n", ""], 1, "b\n"),
        (["a\n", "", ""], 1, "a\n"),
        (["", ""], 3, ""),
        (["\n\n\n"], 2, "\n\n"),
        (["x" * 200_000 + "\nend\n"], 2, "x" * 200_000 + "\nend\n"),
        (["old\n" + "x" * 200_000 + "\nend\n"], 2, "x" * 200_000 + "\nend\n"),
        ([], 2, ""),
    ],
)
def test_the_last_lines_over_rotated_files(tmp_path: Path, files: list[str], count: int, expected: str) -> None:
    paths = []
    for number, text in enumerate(files):
        paths.append(tmp_path / str(number))
        paths[-1].write_text(text)

    chosen = last_lines(paths, count)

    assert b"".join(block for path, place in chosen for block in read_from(path, place)).decode() == expected


class Written:
    """A log that grows under a follower's eyes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fate = Fate.LIVES
        self.follower = LogFollower(directory, 0, 0, lambda: self.fate)
        self.blocks: Iterator[bytes] = self.follower.follow()

    def write(self, text: str, run: int = 0) -> None:
        with (self.directory / f"{run}.log").open("a") as file:
            file.write(text)

    def read(self) -> str:
        """Everything until there is nothing more for the moment, or nothing more at all."""
        found = b""
        for block in self.blocks:
            if not block:
                break
            found += block
        return found.decode()


def test_following_over_a_rotation_loses_nothing(tmp_path: Path) -> None:
    log = Written(tmp_path)
    log.write("one\n")
    assert log.read() == "one\n"
    log.write("two\n")
    rotate(tmp_path / "0.log")
    log.write("3\n")
    assert log.read() == "two\n3\n"


def test_following_reads_a_run_to_its_end_before_the_next(tmp_path: Path) -> None:
    log = Written(tmp_path)
    log.write("one\n")
    assert log.read() == "one\n"
    log.write("two\n")
    log.write("three\n", run=2)
    assert log.read() == "two\n"
    assert log.follower.run == 2
    assert log.read() == "three\n"


def test_following_ends_with_what_is_over(tmp_path: Path) -> None:
    log = Written(tmp_path)
    log.write("one\n")
    log.fate = Fate.OVER
    assert log.read() == "one\n"
    assert next(log.blocks, None) is None


def test_a_container_that_is_started_again_at_once_is_not_over(tmp_path: Path) -> None:
    """It is caught between two runs once, and a second later it is not."""
    log = Written(tmp_path)
    log.fate = Fate.ENDED
    log.read()
    log.write("again\n", run=1)
    log.fate = Fate.LIVES
    assert log.read() == ""
    assert log.read() == "again\n"

    log.fate = Fate.ENDED
    began = time.monotonic()
    assert list(log.blocks)[-1:] == [b""]
    assert time.monotonic() - began > 1


def test_a_log_that_is_cleared_away_meanwhile_is_no_error(tmp_path: Path) -> None:
    log = Written(tmp_path)
    log.write("one\n")
    assert log.read() == "one\n"
    (tmp_path / "0.log").unlink()
    log.fate = Fate.OVER
    assert log.read() == ""


def test_a_pod_that_has_written_nothing(tmp_path: Path) -> None:
    logs = tmp_path / "node" / "n1" / "files" / "logs" / "default_mute_u1"
    logs.mkdir(parents=True)
    (logs.parent / "not-a-pod").mkdir()

    done = run("logs", "mute", "--state-dir", str(tmp_path))
    assert (done.exit_code, done.stderr) == (1, "error: no container of pod `default/mute` has written anything\n")

    (logs / "main").mkdir()
    done = run("logs", "mute", "--state-dir", str(tmp_path))
    assert (done.exit_code, done.stderr) == (1, "error: container `main` of pod `default/mute` has written nothing\n")


def test_of_two_pods_in_a_row_it_is_the_later(tmp_path: Path) -> None:
    for uid, written in (("new", 2000), ("old", 1000)):
        log = tmp_path / "node" / "n1" / "files" / "logs" / f"default_web_{uid}" / "main" / "0.log"
        log.parent.mkdir(parents=True)
        log.write_text(f"{uid}\n")
        os.utime(log, (written, written))

    assert run("logs", "web", "--state-dir", str(tmp_path)).stdout == "new\n"
    assert run("logs", "old", "--state-dir", str(tmp_path)).stdout == "old\n"


def test_lines_have_times_and_can_be_cut_by_them(unguarded: Guarded, guarded: Guarded) -> None:
    """While the agent runs to the second, and without it to the time of the last line."""
    done = guarded.here("logs", "default/web", "-c", "main", "--timestamps")
    stamps = [parse_time(line.split(" ")[0]) for line in done.stdout.splitlines()]
    assert [line.split(" ", 1)[1] for line in done.stdout.splitlines()][:2] == ["tick 0", "tick 1"]
    assert stamps == sorted(stamps)
    assert stamps[-1] - stamps[0] > 10**9
    assert abs(time.time_ns() - stamps[-1]) < 10 * 10**9

    recent = guarded.here("logs", "default/web", "-c", "main", "--since", "1s").stdout
    assert 0 < len(recent) < len(done.stdout)
    middle = exact_time_text(stamps[len(stamps) // 2])
    half = guarded.here("logs", "default/web", "-c", "main", "--since-time", middle).stdout.splitlines()
    assert half[0] == done.stdout.splitlines()[stamps.index(stamps[len(stamps) // 2])].split(" ", 1)[1]
    assert unguarded.here("logs", "default/web", "-c", "main", "--since", "1h").stdout.startswith("tick 0\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--since", "1h", "--since-time", "2030-01-01T00:00:00Z"), "at most one of `--since` or `--since-time`"),
        (("--since", "soon"), "invalid value for `--since`: `soon`: expected a time such as"),
        (("--since-time", "1h"), "invalid value for `--since-time`: `1h`: expected a time such as"),
    ],
)
def test_what_is_no_time_is_refused(guarded: Guarded, arguments: tuple[str, ...], message: str) -> None:
    done = guarded.here("logs", "flaky", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_what_is_followed_has_times_too(guarded: Guarded) -> None:
    reading = Following(guarded, "default/web", "-c", "main", "--timestamps", "--tail", "1")
    stamps = [parse_time(reading.line().split(" ")[0]) for _ in range(4)]
    reading.process.send_signal(signal.SIGINT)
    assert stamps == sorted(stamps)
    assert reading.end() == (130, "")
