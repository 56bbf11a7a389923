"""Everything that writes facts down, together, in a process of its own: once ready it loads no more code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, http.client, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tests.agent.scripted_runtime import HandClock, ScriptedRuntime, pod
from tests.builders import policy
from jettison.agent.agent import Agent, Broadcast
from jettison.agent.http.endpoints import Sources, routes
from jettison.agent.http.server import HttpServer
from jettison.agent.http.client import fetch
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recorder import JournalRecorder
from jettison.agent.self_protection import LateImports, protect
from jettison.agent.sinks.journal import JournalSink
from jettison.agent.sinks.kubernetes_events import KubernetesEvents
from jettison.agent.sinks.log import LogSink
from jettison.agent.sinks.metrics import Metrics
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.machine.stats_reader import StatsReader, StatsSource
from jettison.runtimes.protocol import Alarm, PodStatus
from jettison.runtimes.stats import NodeSubject, StatsSubject

directory = Path(sys.argv[1])
clock = HandClock()
wishes = policy({"memory.available": "100Mi"})
pods = [pod("leak"), pod("web")]
runtime = ScriptedRuntime(clock, pods, used={"leak": 2**30})
metrics, events, log = Metrics(), KubernetesEvents("node1"), LogSink(2)
journal = Journal.open(directory / "journal")
emit = Broadcast(clock, log, events, metrics, JournalSink(journal, "node1"))
PATHS = ("/stats/summary", "/metrics", "/healthz", "/configz", "/pods", "/rank", "/journal?pod=leak", "/events", "/no")


async def main():
    recorder = JournalRecorder(journal, directory / "history.json", wishes, clock, "node1", emit)
    agent = Agent(runtime, wishes, clock, recorder, emit)
    sources = Sources(
        lambda: wishes,
        lambda: agent.snapshot,
        StatsSource(lambda: NodeSubject(StatsSubject(""), {}, []), StatsReader(discover(), clock), executor).details,
        lambda: [PodStatus(each, "Running") for each in pods],
        metrics.text,
        lambda: None,
        directory / "journal",
        events,
        executor,
    )
    server = HttpServer(routes(sources))
    await server.listen_unix(directory / "agent.sock")
    await agent.step()
    recorder.prepare(agent.snapshot, is_urgent=True)
    protect(0)
    with LateImports(print, is_strict=True):
        runtime.available = 50 * 2**20
        clock.pass_seconds(10)
        await agent.step(Alarm("memcg", clock.monotonic_ns()))
        await agent.step()
        loop = asyncio.get_running_loop()
        for path in PATHS:
            answer = await loop.run_in_executor(executor, fetch, directory / "agent.sock", path)
            assert answer.status == (404 if path == "/no" else 200), (path, answer)
        assert b"kubelet_evictions{eviction_signal=\\"memory.available\\"} 1" in (
            await loop.run_in_executor(executor, fetch, directory / "agent.sock", "/metrics")
        ).body
    await server.close()


with ThreadPoolExecutor(2) as executor:
    asyncio.run(main())
journal.close()
print(sorted(event.reason for event in events.recorded()))
"""


def test_an_eviction_and_every_question_about_it_load_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=root,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "['Evicted', 'EvictionThresholdMet', 'NodeHasInsufficientMemory']\n"
    assert '"event":"pod_evicted"' in done.stderr
