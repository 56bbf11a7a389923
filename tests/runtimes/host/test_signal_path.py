"""How far it is from the agent's decision to kill(2): each call in between is one that a reader has to follow."""

from __future__ import annotations

import asyncio
import signal
import traceback
from dataclasses import replace
from pathlib import Path

import pytest

import jettison
from jettison.agent.agent import Agent
from jettison.clock import SystemClock
from jettison.engine.config.policy import KUBELET
from jettison.runtimes.host.runtime import HostRuntime
from jettison.runtimes.host.settings import HostPace
from tests.agent.scripted_runtime import Records
from tests.builders import policy
from tests.runtimes.host.nodes import needs_root, settings
from tests.runtimes.host.scenes import manifest, python, until

pytestmark = needs_root

PACKAGE = str(Path(jettison.__file__).parent)
MOST_FRAMES = 6
# 30 of the 128 MiB that the node has.
HOLDS = "import time; held = bytearray(b'x' * (30 << 20)); time.sleep(60)"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_from_the_decision_to_the_signal_are_six_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The frame that has called `decide` counts, and so does the one that calls the kernel."""
    stacks: list[list[str]] = []
    send = signal.pidfd_send_signal

    def note(descriptor: int, sent: signal.Signals) -> None:
        if sent is number:
            frames = traceback.extract_stack()
            stacks.append([each.name for each in frames if each.filename.startswith(PACKAGE)])
        send(descriptor, sent)

    # On a busy machine the record may take longer than an eviction waits in place.
    own = settings(tmp_path, pace=HostPace(in_place=30))
    switches = replace(KUBELET, kill_hard_at_once=number is signal.SIGKILL)
    rules = policy({"memory.available": "120Mi"}, switches=switches)

    async def run() -> None:
        runtime = await HostRuntime.open(own, rules, SystemClock(), lambda _: None)
        try:
            await runtime.start(manifest(python(HOLDS)))
            monkeypatch.setattr(signal, "pidfd_send_signal", note)
            agent = Agent(runtime, rules, SystemClock(), Records(), lambda _: None)
            async with asyncio.timeout(30):
                while not stacks:
                    await agent.step()
                    await asyncio.sleep(0.02)
            frames = stacks[0][stacks[0].index("step") :]
            assert len(frames) <= MOST_FRAMES, frames
            await until(lambda: runtime.is_finished("uid-a"))
        finally:
            await runtime.stop("uid-a", 0)
            await runtime.close()

    asyncio.run(run())
