"""Put the recorded scenarios of the Kubernetes API to a server, and say where its answers differ.

    python tests/oracle/api.py https://127.0.0.1:6443 --token T --ca ca.crt
    python tests/oracle/api.py URL --token T --without controllers --only evict-twice,plain-errors
    python tests/oracle/api.py URL --token T --pause 'kill -STOP 42' --resume 'kill -CONT 42'

Scenarios tagged `static` need the disruption controller to keep still: `--pause` and `--resume` say how. Those tagged
`controllers`, and most of those tagged `pdb`, need it to run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import api_setups_budgets
import api_setups_cluster
import api_setups_pods
from api_setups import SETUPS
from api_world import Client, World

SETUP_MODULES = (api_setups_budgets, api_setups_cluster, api_setups_pods)
"""Importing them fills the table of setups."""

RECORDED = Path(__file__).parent / "data" / "api-recorded.json.gz"
_SHOWN_DIFFERENCES = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference: in which step, where in its answer, what was recorded and what came."""

    label: str
    path: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        one, two = (json.dumps(each)[:300] for each in (self.recorded, self.found))
        return f"   [{self.label}] {self.path}\n      Kubernetes: {one}\n      here:       {two}"


def scenarios() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))["scenarios"]
    return found


def run_scenario(client: Client, name: str, recorded: Any) -> list[Finding]:
    """Every difference; a scenario that could not be played to its end has one that says so."""
    world = World(client, f"oracle{time.time_ns() // 10**6 % 10**9}", recorded["steps"])
    try:
        if name in SETUPS:
            SETUPS[name](world)
        world.play()
    except (AssertionError, OSError, KeyError, ValueError) as error:
        world.findings.append(("(setup)", "", "the scenario's end", f"{type(error).__name__}: {error}"))
    finally:
        world.clean_up()
    return [Finding(*each) for each in world.findings]


def chosen(only: set[str], without: set[str]) -> Iterator[tuple[str, Any]]:
    for name, recorded in scenarios().items():
        if (not only or name in only) and not without & set(recorded["tags"]):
            yield name, recorded


def _commands(arguments: argparse.Namespace) -> tuple[Callable[[], object], Callable[[], object]]:
    return (
        lambda: subprocess.run(arguments.pause, shell=True, check=True),
        lambda: subprocess.run(arguments.resume, shell=True, check=True),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--token", default="")
    parser.add_argument("--ca")
    parser.add_argument("--only", default="")
    parser.add_argument("--without", default="", help="tags")
    parser.add_argument("--pause", default="")
    parser.add_argument("--resume", default="")
    arguments = parser.parse_args()
    client = Client(arguments.url, arguments.token, arguments.ca)
    without = {each for each in arguments.without.split(",") if each}
    if not arguments.pause:
        without.add("static")
    pause, resume = _commands(arguments)
    same = total = 0
    for name, recorded in chosen({each for each in arguments.only.split(",") if each}, without):
        is_static = "static" in recorded["tags"]
        if is_static:
            pause()
        try:
            findings = run_scenario(client, name, recorded)
        finally:
            if is_static:
                resume()
        total += 1
        same += not findings
        print(f"{'same' if not findings else 'DIFFERENT':10}{name}", flush=True)
        for finding in findings[:_SHOWN_DIFFERENCES]:
            print(finding)
    print(f"{same}/{total} scenarios identical")
    return 0 if same == total else 1


if __name__ == "__main__":
    sys.exit(main())
