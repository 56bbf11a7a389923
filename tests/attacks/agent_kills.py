"""The agent is killed with SIGKILL at random moments of pressure, evictions and clean-ups: nothing may be lost."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

from tests.attacks.tally import Tally
from tests.live.node import HOLD, LiveNode, pod, python

# Of the kills, so many come without a look at whether the agent has started, so that some come before it has.
EARLY_SHARE = 0.2
MARK = f"jettison-crash-{os.getpid()}"
# Far past the threshold, and never to the limit of the node: on a busy machine the kernel would be there before the
# agent, and the restarted leak would wait out a back-off of minutes.
LEAK_MIB = 180
LEAK = (
    f"held = []  # {MARK}\nimport time\n"
    f"while True: held.append(bytearray(b'x') * (1 << 20)) if len(held) < {LEAK_MIB} else None; time.sleep(0.008)"
)
# It takes its time after SIGTERM, so that kills strike during the grace period.
STUBBORN = (
    f"import signal, time  # {MARK}\nsignal.signal(signal.SIGTERM, lambda *_: None)\nheld = []\n"
    "while True: held.append(bytearray(b'x') * (1 << 20)) if len(held) < {mebibytes} else None; time.sleep(0.008)"
)
SOFT_GRACE = 6
# Of a grace period: how late an end may be on record on a busy machine. A grace period that begins anew is later.
SLACK_SHARE = 0.8


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


def kill_under_pressure(folder: Path, seed: int, kills: int) -> Tally:
    """Leak after leak: no orphan process, no lost record, no pod evicted twice, and the bystander lives on."""
    tally = Tally("agent kills", kills)
    moments = random.Random(seed)
    # A transition period of 0 by flag: no condition is ever reported, so the next leak is not turned away.
    flags = ["--node-memory", "256Mi", "--eviction-pressure-transition-period=0s"]
    config = {"evictionHard": {"memory.available": "100Mi"}}
    # Kills come at any moment, also of the start.
    node = LiveNode(folder, flags, config=config, starts_quickly=False)
    node.write(pod("bystander", python(HOLD.format(mebibytes=10)), memory="64Mi"))
    node.start()
    node.wait(lambda: node.pids("bystander"), "the bystander")
    bystander = node.pids("bystander")
    leaks: list[str] = []
    try:
        for _ in range(kills):
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
        tally.seen["evictions"] = len(leaks)
        tally.check(set(node.verdicts().values()) <= {"Evicted"}, f"odd verdicts: {node.verdicts()}")
        tally.check(node.pids("bystander") == bystander, "the bystander was harmed")
        _check_records(node, tally)
    finally:
        node.stop()
    tally.check(not marked(), f"orphans: {marked()}")
    return tally


def kill_during_grace(folder: Path, seed: int, rounds: int) -> Tally:
    """Kills during a grace period: one victim, one record, and all grace together is what was given once."""
    tally = Tally("kills during grace", rounds)
    moments = random.Random(seed)
    soft = {
        "evictionHard": {"memory.available": "5Mi"},
        "evictionSoft": {"memory.available": "140Mi"},
        "evictionSoftGracePeriod": {"memory.available": "0s"},
        "evictionMaxPodGracePeriod": SOFT_GRACE,
    }
    hard = {"evictionHard": {"memory.available": "140Mi"}}
    for name, config, grace, share in (
        ("soft", soft, SOFT_GRACE, rounds - rounds // 2),
        ("hard", hard, 2, rounds // 2),
    ):
        (folder / name).mkdir()
        flags = ["--node-memory", "256Mi", "--eviction-pressure-transition-period=0s"]
        node = LiveNode(folder / name, flags, config=config)
        # Second in line: it goes only if the agent forgets that the first is on its way out.
        node.write(pod("second", python(HOLD.format(mebibytes=20))))
        node.start()
        node.wait(lambda: node.pids("second"), "the second in line")  # noqa: B023  called at once
        second = node.pids("second")
        try:
            for number in range(share):
                _kill_during_one(node, f"stubborn-{number}", grace, moments, tally)
            tally.seen["evictions"] += len(set(node.evicted()))
            tally.check(node.pids("second") == second, "a second victim was taken")
            tally.check("second" not in node.evicted(), "a second victim was chosen")
            _check_records(node, tally)
        finally:
            node.stop()
    return tally


def _kill_during_one(node: LiveNode, name: str, grace: int, moments: random.Random, tally: Tally) -> None:
    node.write(pod(name, python(STUBBORN.format(mebibytes=110)), terminationGracePeriodSeconds=30))
    node.wait(lambda: name in node.evicted(), f"{name} to be told to end", seconds=60)
    told = time.monotonic()
    started = told
    for _ in range(moments.randint(1, 3)):
        time.sleep(moments.uniform(0.0, grace / 3))
        node.kill()
        started = time.monotonic()
        node.start()
        tally.seen["kills"] += 1
    node.wait(lambda: node.ask("/rank") is not None, "the agent")
    ready = time.monotonic()
    node.wait(lambda: name in node.verdicts(), f"{name} to end", seconds=60)
    late = time.monotonic() - max(told + grace, ready)
    # What a start takes tells how busy the machine is.
    slack = SLACK_SHARE * grace + 2 * (ready - started)
    tally.check(late < slack, f"{name} ended {late:.1f} s after its {grace} s of grace")
    node.wait(lambda: not marked(), "its processes to end")
    (node.manifests / f"{name}.json").unlink()


def _check_records(node: LiveNode, tally: Tally) -> None:
    ended = Counter(record.pods[0][2] for record in node.journal() if record.event == "pod_evicted")
    decided = {uid for record in node.journal() for uid in record.evicts}
    evicted = {each["uid"] for each in node.records() if each["verdict"]}
    tally.seen["records"] += len(ended)
    tally.check(all(count == 1 for count in ended.values()), f"recorded twice: {ended}")
    tally.check(evicted <= decided, "an eviction of which no record tells why")
    tally.check(evicted <= ended.keys(), f"an eviction whose end is not on record: {evicted - ended.keys()}")
