"""The wall clock jumps under a running agent: grace periods and deadlines last as long as they should.

The machine's clock is left alone: `tests.live.faulty_agent` adds to what it shows.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.attacks.tally import Tally
from tests.live.node import HOLD, LiveNode, pod, python

JUMPS = (3600, -3600, 86400, -86400, 40, -40, 10 * 365 * 86400, -10 * 365 * 86400)
GRACE = 5
SLACK = 30.0


def _jump(offset: Path, seconds: int) -> None:
    fresh = offset.with_suffix(".new")
    fresh.write_text(str(seconds))
    fresh.rename(offset)


def jump(folder: Path, seed: int, jumps: int) -> Tally:
    """A soft threshold with a grace period, and a deadline of a pod: neither comes early or late."""
    tally = Tally("clock jumps", jumps)
    draw = random.Random(seed)
    config = {
        "evictionHard": {"memory.available": "5Mi"},
        "evictionSoft": {"memory.available": "140Mi"},
        "evictionSoftGracePeriod": {"memory.available": f"{GRACE}s"},
        "evictionMaxPodGracePeriod": 1,
    }
    flags = ["--node-memory", "256Mi", "--eviction-pressure-transition-period=0s"]
    offset = folder / "offset"
    offset.write_text("0")
    node = LiveNode(folder, flags, config=config)
    node.fault = f"wall={offset}"
    node.start()
    try:
        node.wait(lambda: node.ask("/rank") is not None, "the agent")
        for number in range(jumps):
            _jump_during_grace(node, offset, draw, number, tally)
        _check_deadlines(node, offset, tally)
    finally:
        node.stop()
    return tally


def _jump_during_grace(node: LiveNode, offset: Path, draw: random.Random, number: int, tally: Tally) -> None:
    name = f"hog-{number}"
    node.write(pod(name, python(HOLD.format(mebibytes=130))))
    node.wait(lambda: len(node.facts("threshold_crossed")) > number, "the threshold to be crossed", 60)
    crossed = node.told_at("threshold_crossed", number) - int(offset.read_text())
    time.sleep(draw.uniform(0, GRACE / 2))
    seconds = draw.choice(JUMPS)
    _jump(offset, seconds)
    try:
        node.wait(lambda: name in node.evicted(), f"{name} to go", GRACE + SLACK)
    except AssertionError:
        tally.check(False, f"a jump of {seconds} s: {name} did not go within {GRACE + SLACK} s")
        return
    took = node.told_at("eviction_started") - seconds - crossed
    tally.check(
        GRACE - 0.1 < took < GRACE + SLACK, f"a jump of {seconds} s: {name} went after {took:.1f} s of {GRACE} s"
    )
    (node.manifests / f"{name}.json").unlink()
    node.wait(lambda: not node.pids(name), "the memory to be free", 60)
    node.wait(lambda: len(node.facts("threshold_resolved")) > number, "the end of the emergency", 60)
    tally.seen["evictions"] += 1


def _check_deadlines(node: LiveNode, offset: Path, tally: Tally) -> None:
    """A deadline is a length of time too."""
    node.write(pod("long", ["sleep", "600"], activeDeadlineSeconds=500))
    node.write(pod("short", ["sleep", "600"], activeDeadlineSeconds=6))
    node.wait(lambda: node.pids("long") and node.pids("short"), "both pods")
    _jump(offset, int(offset.read_text()) + 3600)
    time.sleep(1.5)
    tally.check(node.pids("long"), "a deadline came an hour early")
    _jump(offset, int(offset.read_text()) - 7200)
    node.wait(lambda: "short" in node.verdicts(), "the short deadline", 6 + SLACK)
    tally.check(node.pids("long"), "a deadline came early")
    tally.seen["deadlines"] += 2
