"""Sweeps: the same table from one process, from several and from a Dask cluster; and what is made of it."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jettison.cli.program import program
from jettison.simulator.sweep import Row, jobs_of, parse_variation, run_here, run_on_dask

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "scenarios"
STORY = """
duration: 4m
nodes: [{name: n1, memory: 1Gi, config: {evictionHard: {memory.available: 100Mi}}}]
pods: [{name: p, node: n1, count: 3, usage: {memory: {kind: leak, from: 10Mi, rate: 2Mi, jitter: 0.5}}}]
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "leaks.yaml"
    path.write_text(STORY)
    return path


@pytest.fixture(scope="module")
def expected(scenario: Path) -> list[Row]:
    return run_here(jobs(scenario), 1, lambda _: None)


def jobs(scenario: Path) -> list:  # type: ignore[type-arg]
    return jobs_of(scenario, [parse_variation("evictionHard.memory.available=100Mi,400Mi")], 3, 0)


def test_every_combination_has_every_seed(expected: list[Row]) -> None:
    found = [(row["evictionHard.memory.available"], row["seed"]) for row in expected]
    assert found == [(amount, seed) for amount in ("100Mi", "400Mi") for seed in range(3)]
    assert len({row["first_eviction_seconds"] for row in expected}) == 6


def test_several_processes_give_the_same_table(scenario: Path, expected: list[Row], tmp_path: Path) -> None:
    """In a process of its own: what Python starts beside a pool stays as long as the process that began it."""
    table = tmp_path / "table.csv"
    words = [str(Path(sys.executable).with_name("jettison")), "simulate", str(scenario), "--csv", str(table)]
    words += ["--vary", "evictionHard.memory.available=100Mi,400Mi", "--seed", "0", "--seeds", "3", "--processes", "2"]
    subprocess.run([*words, "--progress"], capture_output=True, check=True)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{key: str(value) for key, value in row.items()} for row in expected]


def test_a_scenario_may_come_through_a_pipe(scenario: Path) -> None:
    words = [
        str(Path(sys.executable).with_name("jettison")),
        "simulate",
        "/dev/stdin",
        "--seeds",
        "2",
        "--processes",
        "1",
    ]
    done = subprocess.run(words, input=scenario.read_bytes(), capture_output=True, check=True)
    assert done.stdout.splitlines()[0].startswith(b"RUNS")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_sweep_that_is_ended_leaves_no_processes(scenario: Path, number: int, code: int) -> None:
    """Neither does it wait for the runs that have not begun: these would take half an hour."""
    words = [str(Path(sys.executable).with_name("jettison")), "simulate", str(scenario)]
    words += ["--seeds", "100000", "--processes", "2"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True) as sweep:
        workers = _eventually(lambda: found if len(found := _workers(sweep.pid)) == 2 else [])
        # To Ctrl-C a terminal's whole foreground group listens; a killer names one process.
        (os.killpg if number == signal.SIGINT else os.kill)(sweep.pid, number)
        assert sweep.wait(10) == code
        assert _eventually(lambda: not any(Path(f"/proc/{each}").exists() for each in workers))
        assert sweep.stderr is not None
        # One that is killed while it starts its processes leaves them without a beginning, which they say.
        assert number == signal.SIGKILL or b"Traceback" not in sweep.stderr.read()


def _workers(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def _eventually(what: Callable[[], Any]) -> Any:
    ends = time.monotonic() + 10
    while not (found := what()) and time.monotonic() < ends:
        time.sleep(0.01)
    return found


def test_a_killed_process_of_a_sweep_is_told(scenario: Path) -> None:
    words = [str(Path(sys.executable).with_name("jettison")), "simulate", str(scenario)]
    words += ["--seeds", "100000", "--processes", "2"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as sweep:
        workers = _eventually(lambda: _workers(sweep.pid))
        os.kill(int(workers[0]), signal.SIGKILL)
        assert sweep.wait(10) == 1
        assert sweep.stderr is not None
        assert sweep.stderr.read() == "error: a process of the sweep was killed: are there too many --processes?\n"


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler and a worker, in processes of their own, on the loopback."""
    directory = tmp_path_factory.mktemp("dask")
    environment = {**os.environ, "HOME": str(directory), "PYTHONWARNINGS": "ignore"}
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    words += ["--no-dashboard", "--no-show"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment, cwd=directory) as scheduler:
        assert scheduler.stderr is not None
        said = ""
        while (found := re.search(r"tcp://127\.0\.0\.1:\d+", said)) is None:
            line = scheduler.stderr.readline()
            assert line, said
            said += line
        words = [sys.executable, "-m", "distributed.cli.dask_worker", found[0], "--nthreads", "1", "--no-dashboard"]
        words += ["--local-directory", str(directory), "--no-nanny"]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment, cwd=directory) as worker:
            yield found[0]
            worker.terminate()
        scheduler.terminate()


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_table(scenario: Path, expected: list[Row], dask: str) -> None:
    done: list[int] = []
    assert run_on_dask(jobs(scenario), dask, done.append) == expected
    assert sum(done) == 6


def test_tables_and_pictures_are_written(scenario: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    files = {name: tmp_path / f"out.{name}" for name in ("csv", "parquet", "svg", "png")}
    words = ["simulate", str(scenario), "--vary", "alarms=true,false", "--seeds", "2", "--processes", "1"]
    words += ["--csv", str(files["csv"]), "--parquet", str(files["parquet"])]
    words += ["--picture", str(files["svg"]), "--picture", str(files["png"])]
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, done.output
    with files["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = parquet.read_table(files["parquet"]).to_pydict()
    assert [row["alarms"] for row in rows] == columns["alarms"] == ["true", "true", "false", "false"]
    assert [float(row["pressure_seconds"]) for row in rows] == columns["pressure_seconds"]
    assert files["svg"].read_bytes().startswith(b"<?xml")
    assert files["png"].read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_a_run_shows_what_happened_and_is_always_the_same(tmp_path: Path) -> None:
    path = EXAMPLES / "kubelet-against-alarm.yaml"
    one, two = tmp_path / "one.svg", tmp_path / "two.svg"
    for each in (one, two):
        done = CliRunner().invoke(program, ["simulate", str(path), "--picture", str(each)])
        assert done.exit_code == 0, done.output
    text = one.read_text()
    assert text == two.read_text()
    for word in ("alarm: memory.available of 2Gi", "quick-a", "OOM kill", "memory.available&lt;200Mi"):
        assert word in text


@pytest.mark.parametrize("name", ["a $x^{ b$", "\udcff.yaml"])
def test_a_picture_of_any_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(STORY)
    picture = tmp_path / "x.svg"
    for words in ([], ["--seeds", "2", "--processes", "1"]):
        done = CliRunner().invoke(program, ["simulate", str(path), "--picture", str(picture), *words])
        assert (done.exit_code, picture.exists()) == (0, True), done.exception
        picture.unlink()


WRONG = {
    ("--vary", "evictionHard.memory.available"): "expected KEY=VALUE,VALUE",
    ("--vary", "evictionHrad.x=1"): "did you mean `evictionHard`",
    ("--vary", "alarms=maybe"): "expected one of true, false",
    ("--vary", "evictionHard.memory.available=1Zi"): "1Zi",
    ("--vary", "maxPods=1,2", "--vary", "maxPods=3"): "given twice",
    ("--vary", "maxPods=1,2,1"): "--vary maxPods: `1` is given twice",
    ("--set", "maxPods=1_0"): "maxPods is `1_0`, expected a whole number",
    ("--set", "maxPods=٣"): "maxPods is `٣`, expected a whole number",
    ("--set", "evictionHard.memory.available=1Zi"): "--set evictionHard.memory.available=1Zi",
    ("--picture", "x.gif"): "a picture ends in .svg or .png",
    ("--scheduler", "tcp://127.0.0.1:1"): "--scheduler is for a sweep",
    ("--seeds", "2", "--story", "x"): "for one run",
    ("--seeds", "100000", "--vary", "maxPods=1,2"): "expected 100000 at most",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_a_wrong_sweep_is_refused_before_it_runs(scenario: Path, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(program, ["simulate", str(scenario), *words])
    assert done.exit_code == 2
    assert WRONG[words] in done.stderr


@pytest.mark.parametrize("kind", ["csv", "parquet", "svg"])
def test_a_file_is_written_where_the_user_wants_it(scenario: Path, tmp_path: Path, kind: str) -> None:
    option = "--picture" if kind == "svg" else f"--{kind}"
    link, directory = tmp_path / f"link.{kind}", tmp_path / f"directory.{kind}"
    link.symlink_to("target")
    directory.mkdir()
    done = CliRunner().invoke(program, ["simulate", str(scenario), option, str(link)])
    assert done.exit_code == 0
    assert link.is_symlink()
    assert (tmp_path / "target").stat().st_size > 0
    done = CliRunner().invoke(program, ["simulate", str(scenario), option, str(directory)])
    assert done.exit_code == 1
    assert done.stderr.endswith(f"error: cannot write `{directory}`: is a directory\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == [directory.name, link.name, "target"]


@pytest.mark.parametrize("option", ["--csv", "--parquet", "--picture", "--story"])
def test_a_file_that_cannot_be_is_told_before_anything_runs(scenario: Path, tmp_path: Path, option: str) -> None:
    done = CliRunner().invoke(program, ["simulate", str(scenario), option, str(tmp_path / "none" / "x.svg")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.endswith(f"x.svg`: `{tmp_path / 'none'}` is no directory\n")


def test_an_answer_is_printed_although_its_files_cannot_be_written(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "x.svg").mkdir()
    done = CliRunner().invoke(program, ["simulate", str(scenario), "--picture", str(tmp_path / "x.svg")])
    assert done.exit_code == 1
    assert "SECONDS" in done.stdout
    assert "cannot write" in done.stderr
