"""Attacks that take minutes, from a seed, with a summary to paste.

    .venv/bin/python tests/soak.py                        # all of them, about half an hour, as root
    .venv/bin/python tests/soak.py --seed 7 --scale 0.1   # a tenth of the tries
    .venv/bin/python tests/soak.py --only requests,clock  # those whose names begin like this

The suite runs the same attacks with small numbers (`tests/live`), but for the containers of an emulated machine with
cgroup v2, which are here alone. The exit code is 1 if anything broke.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "oracle")]

from jettison import __version__  # noqa: E402  the path comes first
from tests.attacks import (  # noqa: E402
    agent_kills,
    budgets,
    clocks,
    command_lines,
    damaged_bytes,
    guest_containers,
    long_lists,
    manifests,
    requests,
    server_kills,
    state_files,
)
from tests.attacks.tally import Tally  # noqa: E402
from tests.janitor import watched_run  # noqa: E402

Attack = Callable[[Path, int, int], Tally]

ATTACKS: dict[str, tuple[Attack, int, bool]] = {
    # name: what it does with folder, seed and tries; how many tries; whether it needs root
    "agent kills": (agent_kills.kill_under_pressure, 400, True),
    "kills during grace": (agent_kills.kill_during_grace, 20, True),
    "clock jumps": (clocks.jump, 16, True),
    "agent's files": (state_files.damage_agent, 150, True),
    "manifests": (manifests.write_random_manifests, 2000, True),
    "server kills": (server_kills.kill_under_load, 150, False),
    "server's files": (state_files.damage_server, 200, False),
    "budgets under kills": (lambda folder, _, kills: budgets.evict_in_a_crowd(folder, kills), 12, False),
    "requests": (requests.send_random_requests, 20_000, False),
    "damaged bytes": (damaged_bytes.send_damaged_bytes, 8000, False),
    "long lists": (long_lists.send_long_lists, 2000, False),
    "containers on v2": (guest_containers.host_containers, 2, True),
    "command lines": (command_lines.run_random_commands, 5000, False),
}


def main() -> int:
    """Run what is asked for and print one row for each attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the usual number of tries")
    parser.add_argument("--only", default="", help="attacks whose names begin like this, with commas between")
    arguments = parser.parse_args()
    wanted = tuple(arguments.only.split(","))
    chosen = {name: each for name, each in ATTACKS.items() if name.startswith(wanted)}
    if not chosen:
        parser.error(f"no attack begins with {arguments.only!r}; there are {', '.join(ATTACKS)}")
    print(f"jettison {__version__}, Linux {platform.release()}, {os.cpu_count()} cores, seed {arguments.seed}")
    print(f"{'attack':<22} {'tries':>7} {'broken':>7}  seen", flush=True)
    tallies = []
    for name, (attack, tries, needs_root) in chosen.items():
        if needs_root and os.geteuid() != 0:
            print(f"{name:<22} {'-':>7} {'-':>7}  skipped: needs root", flush=True)
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="jettison-soak-") as folder:
            try:
                tally = attack(Path(folder), arguments.seed, max(1, round(tries * arguments.scale)))
            except AssertionError as error:
                tally = Tally(name)
                tally.check(False, f"the attack itself ended early: {error}")
        print(f"{tally.row()} in {time.monotonic() - started:.0f} s", flush=True)
        for complaint in tally.complaints:
            print(f"\n{tally.name}: {complaint}\n", flush=True)
        tallies.append(tally)
    return 1 if any(tally.broken for tally in tallies) else 0


if __name__ == "__main__":
    with watched_run():
        code = main()
    sys.exit(code)
