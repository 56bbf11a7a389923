"""Many runs of one scenario: every combination of settings, each with many seeds; over processes or a Dask cluster.

A job is small and complete: the scenario's text, settings and a seed. Results come back in the order of the jobs, so a
sweep's table does not depend on which process was quicker. It is written as CSV, or as Parquet for what reads columns.
"""

from __future__ import annotations

import csv
import io
import itertools
import multiprocessing
import os
import signal
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from jettison.engine.config.policy import PROFILES, Policy
from jettison.errors import InputError, JettisonError, WriteError
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.simulator.run import run
from jettison.simulator.scenario import Scenario, scenario_of
from jettison.simulator.sections import ScenarioFile
from jettison.simulator.settings_changes import row_of, with_profile, with_settings
from jettison.values import frozen

MOST_RUNS = 100_000

Row = dict[str, Any]
Progress = Callable[[int], None]
"""Told how many more runs are done."""
Worker = Connection
"""The end here of what leads to a process of the sweep."""


@frozen
class Job:
    """One run."""

    text: str
    name: str
    directory: str
    settings: tuple[tuple[str, str], ...]
    seed: int


@frozen
class Variation:
    """A key, and the values that it takes."""

    key: str
    values: tuple[str, ...]


_OWN = {"profile": list(PROFILES), "alarms": ["true", "false"]}
"""Keys of a scenario's nodes that can be varied besides the fields of a KubeletConfiguration."""


def parse_variation(text: str) -> Variation:
    """`key=a,b,c`."""
    key, separator, values = text.partition("=")
    found = tuple(each.strip() for each in values.split(","))
    if not separator or not key or not all(found):
        raise InputError(f"`{shortened(text)}`: expected KEY=VALUE,VALUE, as evictionHard.memory.available=100Mi,500Mi")
    if key in _OWN:
        wrong = next((each for each in found if each not in _OWN[key]), None)
        if wrong is not None:
            raise InputError(f"{key} is `{shortened(wrong)}`, expected one of {', '.join(_OWN[key])}")
    else:
        row_of(key)
    twice = next((each for each in found if found.count(each) > 1), None)
    if twice is not None:
        raise InputError(f"--vary {key}: `{shortened(twice)}` is given twice; --seeds asks for more runs")
    return Variation(key, found)


def varied(scenario: Scenario, settings: Sequence[tuple[str, str]], source: str = "--vary") -> Scenario:
    """With these settings on all nodes; `source` is the option that a complaint names."""
    own = dict(each for each in settings if each[0] in _OWN)
    fields = [each for each in settings if each[0] not in _OWN]

    def change(policy: Policy) -> Policy:
        changed = with_profile(policy, own["profile"]) if "profile" in own else policy
        return with_settings(changed, fields, source)

    changed = scenario.with_policies(change) if settings else scenario
    if "profile" in own:
        changed = replace(changed, profile=own["profile"])
    if "alarms" in own:
        has_alarms = own["alarms"] == "true"
        changed = replace(changed, nodes=[replace(each, has_alarms=has_alarms) for each in changed.nodes])
    return changed


def jobs_of(path: Path, variations: Sequence[Variation], seeds: int, seed: int | None = None) -> list[Job]:
    """So many seeds of each combination, beginning with `seed` or the scenario's.

    Every combination is tried once, so that a mistake is told before anything runs. The file is read once: it may be a
    pipe.
    """
    file = ScenarioFile.read(path)
    combinations = list(itertools.product(*([(each.key, value) for value in each.values] for each in variations)))
    if len(combinations) * seeds > MOST_RUNS:
        raise InputError(f"these are {len(combinations) * seeds} runs, expected {MOST_RUNS} at most")
    scenario = scenario_of(file, path.stem)
    for each in combinations:
        varied(scenario, each)
    directory = str(path.parent.resolve())
    first = scenario.seed if seed is None else seed
    tried = range(first, first + seeds)
    return [Job(file.text, path.stem, directory, each, number) for each in combinations for number in tried]


def run_job(job: Job) -> Row:
    """In whatever process."""
    scenario = _scenario(job.text, job.name, job.directory)
    result = run(varied(scenario, job.settings), job.seed)
    return {**dict(job.settings), **result.row()}


@lru_cache(maxsize=4)
def _scenario(text: str, name: str, directory: str) -> Scenario:
    return scenario_of(ScenarioFile(text, name, Path(directory)), name)


def run_here(jobs: Sequence[Job], processes: int | None, progress: Progress) -> list[Row]:
    """Over processes of this machine; with one, in this one."""
    count = min(processes or os.cpu_count() or 1, len(jobs))
    if count == 1:
        return list(_one_by_one(jobs, progress))
    rows: list[Row] = [{}] * len(jobs)
    left = iter(enumerate(jobs))
    try:
        with _workers(count) as idle:
            busy: dict[Worker, int] = {}
            done = 0
            while done < len(jobs):
                for worker, (index, job) in zip(idle, left, strict=False):
                    worker.send(job)
                    busy[worker] = index
                idle = [each for each in wait(list(busy)) if isinstance(each, Connection)]
                for each in idle:
                    rows[busy.pop(each)] = _row(each)
                done += len(idle)
                progress(len(idle))
    except (EOFError, ConnectionError) as error:
        raise JettisonError("a process of the sweep was killed: are there too many --processes?") from error
    return rows


@contextmanager
def _workers(count: int) -> Iterator[list[Worker]]:
    """Processes that run what they are sent. They end with this block, in the midst of a run if it is interrupted."""
    # Not forked: a child would share the locks of this process's threads.
    context = multiprocessing.get_context("spawn")
    processes, workers = [], []
    # It lets Ctrl-C through again when it starts.
    resource_tracker.ensure_running()
    # A terminal sends Ctrl-C to all of them, and this process alone answers it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            workers.append(ours)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield workers
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for process in processes:
            process.kill()
            process.join()


def _work(jobs: Worker) -> None:
    """In each process, until the one that began it closes its end or is killed."""
    with suppress(EOFError, ConnectionError):
        while True:
            job: Job = jobs.recv()
            try:
                jobs.send(run_job(job))
            except JettisonError as error:
                jobs.send(error)


def _row(worker: Worker) -> Row:
    answer = worker.recv()
    if isinstance(answer, JettisonError):
        raise answer
    row: Row = answer
    return row


def _one_by_one(jobs: Iterable[Job], progress: Progress) -> Iterator[Row]:
    for job in jobs:
        yield run_job(job)
        progress(1)


def run_on_dask(jobs: Sequence[Job], address: str, progress: Progress) -> list[Row]:
    """On the workers of an existing Dask scheduler, which must have the same version of this program."""
    import distributed  # noqa: PLC0415  an extra

    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise JettisonError(f"no Dask scheduler answers at `{shortened(address)}`: {error}") from error
    with client:
        futures = client.map(run_job, jobs, pure=False)
        for _ in distributed.as_completed(futures, loop=client.loop):
            progress(1)
        rows: list[Row] = client.gather(futures)
    return rows


def plain(key: str) -> str:
    """A key as a head of a column: `evictionHard.memory.available` is `memory.available`."""
    return key.partition(".")[2] or key


def summary(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """One row for each combination of settings: how many runs, and mean, least and most of what matters."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [{**dict(zip(keys, values, strict=True)), **_figures(group)} for values, group in groups.items()]


FIGURES = (
    "evictions",
    "oom_kills",
    "rejections",
    "api_evictions",
    "drained",
    "drains_timed_out",
    "condition_changes",
    "pressure_seconds",
)
"""What a sweep is judged by, in the order of a table."""


def telling_figures(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those that are not zero in all runs; evictions always."""
    return [name for name in FIGURES if name == FIGURES[0] or any(row[name] for row in rows)]


def _figures(rows: Sequence[Mapping[str, Any]]) -> Row:
    found: Row = {"runs": len(rows)}
    for name in FIGURES:
        values = [row[name] for row in rows]
        found[name] = {"mean": statistics.fmean(values), "least": min(values), "most": max(values)}
    return found


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A head and one line for each run; what is not known is empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(path, text.getvalue().encode())


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """One column for each key, typed by its values."""
    import pyarrow as pa  # noqa: PLC0415  an extra
    from pyarrow import parquet  # noqa: PLC0415

    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    buffer = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), buffer)
    write_file(path, buffer.getvalue().to_pybytes())


def write_file(path: Path, data: bytes) -> None:
    """Where the user wants it, which may be behind a link or a pipe; a directory is refused."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise WriteError(f"cannot write `{path}`: {reason(error)}") from error
