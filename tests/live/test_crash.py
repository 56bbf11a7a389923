"""The agent is killed with SIGKILL at random moments of pressure, evictions and clean-ups: nothing may be lost."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.live.node import HOLD, LiveNode, pod, python

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(420),
]

KILLS = 50
# Of the kills, so many come without a look at whether the agent has started, so that some come before it has.
EARLY_SHARE = 0.2
MARK = "jettison-crash-test"
LEAK = f"held = []  # {MARK}\nimport time\nwhile True: held.append(bytearray(b'x') * (1 << 20)); time.sleep(0.008)"


def marked() -> list[int]:
    """Processes of the leaks that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if MARK.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # ended while we looked
    return found


def test_nothing_is_lost_over_fifty_crashes(tmp_path: Path) -> None:
    """No orphan process, no lost record, no pod evicted twice, and the bystander never notices."""
    moments = random.Random(50)
    # A transition period of 0 by flag: no condition is ever reported, so the next leak is not turned away.
    flags = ["--node-memory", "256Mi", "--eviction-pressure-transition-period=0s"]
    node = LiveNode(tmp_path, flags, config={"evictionHard": {"memory.available": "100Mi"}})
    node.write(pod("bystander", python(HOLD.format(mebibytes=10)), memory="64Mi"))
    node.start()
    node.wait(lambda: node.pids("bystander"), "the bystander")
    bystander = node.pids("bystander")
    leaks: list[str] = []
    try:
        for _ in range(KILLS):
            if all(name in node.verdicts() for name in leaks):
                leaks.append(f"leak-{len(leaks)}")
                node.write(pod(leaks[-1], python(LEAK)))
            # Else a machine that is slow to start an agent would never see one that evicts.
            if moments.random() >= EARLY_SHARE:
                node.wait(lambda: node.ask("/rank") is not None, "the agent")
            time.sleep(moments.uniform(0.0, 2.5))
            node.kill()
            node.start()
        node.wait(lambda: all(name in node.verdicts() for name in leaks), "the last leak to go", seconds=60)
        node.wait(lambda: not marked(), "every process of a leak to end")
        assert len(leaks) >= 5, "the crashes came too fast to see evictions"
        assert set(node.verdicts().values()) <= {"Evicted"}
        assert node.pids("bystander") == bystander
        _check_records(node)
    finally:
        node.stop()
    assert not marked()


def _check_records(node: LiveNode) -> None:
    ended = Counter(record.pods[0][2] for record in node.journal() if record.event == "pod_evicted")
    decided = {uid for record in node.journal() for uid in record.evicts}
    evicted = {each["uid"] for each in node.records() if each["verdict"]}
    assert all(count == 1 for count in ended.values()), f"evicted twice: {ended}"
    assert evicted <= decided, "an eviction of which no record tells why"
