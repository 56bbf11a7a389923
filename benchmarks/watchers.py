"""Two thousand watches that are never read: what they cost the server, its writers, and the minute after.

Silent clients of a viewer ask for everything about 1,000 pods of 7 kB and take nothing of it, while 8 clients change
those pods: in a first round alone, in a second beside the watchers. Each number stands beside that of the first round.
The bars: less than 400 MiB at any time, two thirds of the rate, and at most 20 % more memory than before, within a
minute after the watchers have gone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import resource
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the server is that of the live tests

from benchmarks.footprint import rss_mb
from benchmarks.harness.load import Load, Server, drive
from tests.live.served import serving

PATH = "/api/v1/namespaces/default/pods"
PATCH = "application/merge-patch+json"
CLIENTS = 8
BAR_MIB = 400.0
BAR_RATE = 2 / 3
BAR_LEFT = 1.2
PATIENCE_SECONDS = 60.0
MIB_PER_MB = 1e6 / 2**20


def main() -> int:
    """Print the table; exit 1 when a bar is not met."""
    parser = argparse.ArgumentParser(description="memory and rates of the API server under watches that are not read")
    parser.add_argument("--watchers", type=int, default=2_000)
    parser.add_argument("--pods", type=int, default=1_000)
    parser.add_argument("--bytes", type=int, default=7_000, help="of one pod [7000]")
    parser.add_argument("--writes", type=int, default=12_000, help="in each of the two rounds [12000]")
    parser.add_argument("--from-now", action="store_true", help="watch what happens only, not what is there already")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    serve = partial(serving, quickly=False)
    with tempfile.TemporaryDirectory() as name, serve(Path(name) / "state", "--controllers=") as served:
        pid = served.process.pid
        writer = Server(served.port, served.trust(), served.token())
        viewer = Server(served.port, served.trust(), served.token("viewer"))
        drive(writer, [writer.request("POST", PATH, pod(each, options.bytes)) for each in range(options.pods)], CLIENTS)
        alone = drive(writer, touches(writer, options.pods, options.writes), CLIENTS, code=200)
        before = rss_mb(pid) * MIB_PER_MB
        query = "?watch=true&resourceVersion="
        if options.from_now:
            query += served.call("GET", PATH + "?limit=1")[1]["metadata"]["resourceVersion"]
        with Peak(pid) as peak:
            here, there = multiprocessing.Pipe()
            crowd = multiprocessing.Process(
                target=watch, args=(viewer.port, viewer.token, PATH + query, options.watchers, there)
            )
            crowd.start()
            refused = here.recv()
            load = drive(writer, touches(writer, options.pods, options.writes), CLIENTS, code=200)
            here.send("close")
            crowd.join()
        left, seconds = settle(pid, before)
    return report(options, alone, load, before, peak.mib, left, seconds, refused)


def report(
    options: argparse.Namespace,
    alone: Load,
    load: Load,
    before: float,
    peak: float,
    left: float,
    seconds: float,
    refused: int,
) -> int:
    """One line for each bar."""
    said = f"{options.watchers} silent watchers of {options.pods} pods of {options.bytes} bytes"
    print(f"watchers: {said}; {refused} were refused")
    rows = (
        ("memory at its highest, MiB", peak, before, peak < BAR_MIB, f"< {BAR_MIB:.0f}"),
        ("writes a second", load.rate, alone.rate, load.rate >= BAR_RATE * alone.rate, f">= {BAR_RATE:.2f} x"),
        ("writes, p99 ms", load.wait_ms(0.99), alone.wait_ms(0.99), True, "-"),
        (f"memory {seconds:.0f} s after, MiB", left, before, left <= BAR_LEFT * before, f"<= {BAR_LEFT} x"),
    )
    print(f"{'':34}{'with':>9}{'without':>9}{'ratio':>7}{'bar':>11}")
    for name, found, base, is_met, bar in rows:
        print(f"{name:<34}{found:>9.1f}{base:>9.1f}{found / base:>7.2f}{bar:>11}  {'ok' if is_met else 'MISSED'}")
    return 0 if all(row[3] for row in rows) else 1


def pod(number: int, size: int) -> bytes:
    """With an annotation that gives it the weight."""
    metadata = {"name": f"pod-{number:05d}", "annotations": {"weight": "x" * (size - 1100)}}
    containers = [{"name": "app", "image": "registry.example/app:1"}]
    return json.dumps({"metadata": metadata, "spec": {"containers": containers}}).encode()


def touches(server: Server, pods: int, count: int) -> Iterator[bytes]:
    """Small changes of all pods in turn; each write is another one."""
    for turn, number in itertools.islice(enumerate(itertools.cycle(range(pods))), count):
        body = json.dumps({"metadata": {"labels": {"turn": f"{time.monotonic_ns() % 10**9}-{turn}"}}}).encode()
        yield server.request("PATCH", f"{PATH}/pod-{number:05d}", body, PATCH)


def watch(port: int, token: str, path: str, count: int, answers: Connection) -> None:
    """In a process of its own: open the watches, read nothing, say how many were refused, and leave when told to."""
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    server = Server(port, trust, token)
    held: list[ssl.SSLSocket] = []
    for _ in range(count):
        try:
            each = server.connect()
            each.sendall(server.request("GET", path))
        except OSError:
            continue
        held.append(each)
    answers.send(count - len(held))
    answers.recv()
    for each in held:
        each.close()


class Peak:
    """The most memory that a process has had while this was open."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.mib = 0.0

    def _look(self) -> None:
        while not self._is_over.wait(0.1):
            self.mib = max(self.mib, rss_mb(self._pid) * MIB_PER_MB)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def settle(pid: int, before: float) -> tuple[float, float]:
    """The memory, and after how many seconds: as soon as the bar is met, or after a minute."""
    began = time.monotonic()
    while True:
        left, seconds = rss_mb(pid) * MIB_PER_MB, time.monotonic() - began
        if left <= BAR_LEFT * before or seconds > PATIENCE_SECONDS:
            return left, seconds
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
