"""Evictions, lists and watches of `jettison serve`: how many a second, and how long one client waits.

The server runs as people run it: TLS, a store that waits for the disk, all controllers in a process beside it.
Clients keep their connections. An eviction is acknowledged when it is durable. Where a budget guards the pods, most of
them may go, but only as long as the disruption controller confirms what was granted: it works at the same time.

The baseline of the same run is the least that such a server could do (`harness/floor.py`): Starlette on uvicorn with
TLS, one row and one commit for a write, ready-made bytes for lists and watches.

kube-apiserver with etcd, on such a machine, evicts 120 to 390 pods a second without a budget and 5 to 25 through one.
The bars are three and twenty times that: of the lower number for a single client, which can do nothing but wait for the
disk, of the higher one for 8. With 8 clients the evictions must also reach 0.8 of the baseline's rate without a budget
and 0.65 through one, and 99 in 100 must be answered within 25 ms.

A row is made in five rounds, in each of which the baseline comes first and the evictions follow: a busy machine slows
both. Where a ratio is asked for, that is done with three crowds of pods, one after the other, because the speed of a
machine may change by a third within a second. The ratio is the median of all rounds; rates, waits and processor time
are of all together. Next to the waits stands how long 99 in 100 answers of the baseline took at most, and the
microseconds of processor time that the server, controllers included, took for one answer: those tell more than a rate
when the machine has other things to do.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the server is that of the live tests

from benchmarks.footprint import cpu_seconds, rss_mb
from benchmarks.harness.crowd import Crowd, beat
from benchmarks.harness.floor import standing
from benchmarks.harness.load import Load, Server, Watchers, drive, drive_watched, together
from tests.live.served import Served, serving

CLIENTS = (1, 8)
FREE_BARS = {1: 3 * 120, 8: 3 * 390}
GUARDED_BARS = {1: 20 * 5, 8: 20 * 25}
RATIO_BARS = {0: 0.8, 1: 0.65}
WAIT_BAR_MS = 25.0
EVICTION_ROUNDS, RATIO_CROWDS, PAUSE = 5, 3, 0.5
BUDGETS = (0, 1, 10)
SETTLE = 3.0
LISTED, LISTS = 1_000, 100
WATCHERS = (1, 8, 64)
TOUCHED, ROUNDS = 250, 4

_names = (f"scene-{number}" for number in itertools.count(1))


@dataclass(frozen=True, slots=True)
class Bars:
    """Answers a second, their ratio to the baseline's, and the milliseconds within which 99 of 100 must come."""

    rate: float
    ratio: float = 0.0
    late_ms: float = math.inf


@dataclass(frozen=True, slots=True)
class Bench:
    """Both servers."""

    served: Served
    ours: Server
    floor: Server

    def crowd(self) -> Crowd:
        """A fresh namespace."""
        beat(self.served)
        return Crowd(self.served, self.ours, next(_names))

    @property
    def cpu_seconds(self) -> float:
        """That our server and its controllers have taken so far."""
        return sum(map(cpu_seconds, self.served.pids))


def main() -> int:
    """Print the table; exit 1 when a bar is not met."""
    parser = argparse.ArgumentParser(description="throughput of the API server")
    parser.add_argument("--pods", type=int, default=1_500, help="evicted in each row [1500]")
    parser.add_argument("--only", choices=("evictions", "lists", "watches"), help="one part [all]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(folder / "state", quickly=False) as served, standing(folder) as floor:
            bench = Bench(served, Server(served.port, served.trust(), served.token()), floor)
            time.sleep(SETTLE)
            sizes = " and ".join(f"{rss_mb(pid):.1f}" for pid in served.pids)
            load = os.getloadavg()[0]
            print(f"api: {options.pods} evictions a row; {sizes} MB before the first; load average {load:.1f}")
            columns = f"{'rate/s':>8}{'floor/s':>8}{'ratio':>7}{'p50 ms':>8}{'p99 ms':>8}{'floor ms':>9}{'cpu µs':>8}"
            columns += f"{'bar/s':>7}"
            print(f"{'':42}{columns}")
            met = []
            if options.only in (None, "evictions"):
                met += list(measure_evictions(bench, options.pods))
            if options.only in (None, "lists"):
                measure_lists(bench)
            if options.only in (None, "watches"):
                measure_watches(bench)
    return 0 if all(met) else 1


def measure_evictions(bench: Bench, pods: int) -> Iterator[bool]:
    """One row for each number of clients and budgets; whether each has met its bars."""
    for budgets, clients in itertools.product(BUDGETS, CLIENTS):
        bars, crowds = Bars((GUARDED_BARS if budgets else FREE_BARS)[clients]), 1
        if clients == CLIENTS[-1]:
            bars = replace(bars, ratio=RATIO_BARS.get(budgets, 0.0), late_ms=WAIT_BAR_MS)
            crowds = RATIO_CROWDS if bars.ratio else 1
        rounds = [each for _ in range(crowds) for each in _rounds(bench, pods, budgets, clients)]
        floors, loads = [floor for floor, _ in rounds], [load for _, load in rounds]
        guard = "no budget" if not budgets else "one budget" if budgets == 1 else f"{budgets} budgets"
        ratio = statistics.median(load.rate / floor.rate for floor, load in rounds)
        name = f"evictions, {guard}, {_several(clients, 'client')}"
        floor = together(floors)
        yield row(name, together(loads), floor.rate, ratio, bars, floor.wait_ms(0.99))


def _rounds(bench: Bench, pods: int, budgets: int, clients: int) -> Iterator[tuple[Load, Load]]:
    """Of one crowd: the baseline's and ours."""
    body = b'{"metadata":{"name":"pod-%05d"}}'
    crowd = bench.crowd()
    crowd.gather(pods, budgets)
    requests = list(crowd.evictions(pods, budgets))
    size = math.ceil(len(requests) / EVICTION_ROUNDS)
    for start in range(0, len(requests), size):
        part = requests[start : start + size]
        writes = [bench.floor.request("POST", "/write", body % number) for number in range(len(part))]
        floor = drive(bench.floor, writes, clients)
        yield floor, drive(bench.ours, part, clients, spent=lambda: bench.cpu_seconds)
        # What the controllers have put off must not be done at the baseline's expense.
        time.sleep(PAUSE)
    crowd.clear()


def measure_lists(bench: Bench) -> None:
    """A thousand pods at a time."""
    crowd = bench.crowd()
    crowd.gather(LISTED, 0)
    request = bench.ours.request("GET", f"/api/v1/namespaces/{crowd.namespace}/pods")
    for clients in CLIENTS:
        load = drive(bench.ours, [request] * LISTS, clients, code=200, spent=lambda: bench.cpu_seconds)
        size = load.received // load.count
        floor = drive(bench.floor, [bench.floor.request("GET", f"/list/{size}")] * LISTS, clients, code=200)
        speed = load.received / load.seconds / 1e6
        row(f"lists of {LISTED} pods, {_several(clients, 'client')}, {speed:.0f} MB/s", load, floor.rate)
    crowd.clear()


def measure_watches(bench: Bench) -> None:
    """Events delivered to all watches together, while 8 clients change pods."""
    for count in WATCHERS:
        crowd = bench.crowd()
        crowd.gather(TOUCHED, 0)
        path = f"/api/v1/namespaces/{crowd.namespace}/pods?watch=true&resourceVersion="
        version = bench.served.call("GET", f"/api/v1/namespaces/{crowd.namespace}/pods")[1]["metadata"]
        watchers = Watchers(bench.ours, path + version["resourceVersion"], count)
        expected = TOUCHED * ROUNDS * count
        touches = crowd.touches(TOUCHED, ROUNDS)
        load = drive_watched(bench.ours, touches, CLIENTS[-1], watchers, expected, lambda: bench.cpu_seconds)
        watchers.close()
        crowd.clear()
        size = watchers.received // expected
        floor = Watchers(bench.floor, f"/watch/{size}/{TOUCHED * ROUNDS}", count)
        begun = drive_watched(bench.floor, (), 0, floor, expected)
        floor.close()
        name = f"events to {_several(count, 'watcher')}, {watchers.received / load.seconds / 1e6:.0f} MB/s"
        row(name, replace(load, count=expected), expected / begun.seconds)


def row(
    name: str,
    load: Load,
    floor: float,
    ratio: float | None = None,
    bars: Bars | None = None,
    floor_late_ms: float | None = None,
) -> bool:
    """One line; True when its bars are met."""
    middle, late = load.wait_ms(0.5), load.wait_ms(0.99)
    ratio = load.rate / floor if ratio is None else ratio
    is_fast = bars is None or (load.rate >= bars.rate and ratio >= bars.ratio)
    is_soon = bars is None or late < bars.late_ms
    verdict = "" if bars is None else "ok" if is_fast and is_soon else "TOO SLOW" if not is_fast else "TOO LATE"
    numbers = f"{load.rate:>8.0f}{floor:>8.0f}{ratio:>7.2f}{middle:>8.2f}{late:>8.2f}"
    numbers += f"{'-' if floor_late_ms is None else f'{floor_late_ms:.2f}':>9}"
    numbers += f"{load.cpu_seconds / load.count * 1e6:>8.0f}{'-' if bars is None else f'{bars.rate:.0f}':>7}"
    print(f"{name:<42}{numbers}  {verdict}".rstrip(), flush=True)
    return is_fast and is_soon


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


if __name__ == "__main__":
    sys.exit(main())
