"""Builds `data/`: `compact.py DIR` takes a directory of full case files and keeps what this repository can carry.

A case is kept first if it shows something that no case before it showed: a key, a kind of value or a wording, in its
input or in its answer. Whatever fits into the budget after that is kept too, in order. So a smaller budget loses
repetitions before it loses rules.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from answer import ANSWERS

DATA = Path(__file__).parent / "data"
MEGABYTE = 10**6
_CHANCE = "-nondet"


def kind_of(path: Path) -> str:
    """`synchronize-nondet.jsonl.gz` → `synchronize`: the same question, where upstream has several answers."""
    return path.name.partition(".")[0].removesuffix(_CHANCE)


def read_cases(path: Path) -> list[Any]:
    """Every case of a file, compressed or not."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    # Not splitlines(): a text in a case may hold one of the other characters that Python takes for an end of line.
    return [json.loads(line) for line in raw.split(b"\n") if line.strip()]


def packed(cases: Iterable[Any]) -> bytes:
    """A case file. No time of writing inside, so that equal cases make an equal file."""
    lines = "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases)
    return gzip.compress(lines.encode(), 9, mtime=0)


def without_debug(value: Any) -> Any:
    """Upstream's internals are in the full files; they are not compared."""
    if isinstance(value, dict):
        return {key: without_debug(each) for key, each in value.items() if key != "debug"}
    if isinstance(value, list):
        return [without_debug(each) for each in value]
    return value


def features(value: Any, place: str = "") -> Iterator[str]:
    """What a case shows: each place in it together with the kind of value found there."""
    if isinstance(value, dict):
        yield f"{place}:map" if value else f"{place}:empty"
        for key, each in value.items():
            # Map keys that are names, not fields, would make every case look new.
            yield from features(each, f"{place}.{_masked(key)}")
    elif isinstance(value, list):
        yield f"{place}:{min(len(value), 3)} items"
        for each in value:
            yield from features(each, f"{place}[]")
    elif isinstance(value, str):
        yield f"{place}={_masked(value)}"
    elif isinstance(value, bool) or value is None:
        yield f"{place}={value}"
    else:
        yield f"{place}={(value > 0) - (value < 0)}"


def _masked(text: str) -> str:
    return re.sub(r"[0-9]+", "0", text)[:80]


def select(cases: Sequence[Any], budget: float) -> list[Any]:
    """At most `budget` characters of cases, novel ones first, in their own order."""
    seen: set[str] = set()
    novel: list[int] = []
    familiar: list[int] = []
    for index, case in enumerate(cases):
        shown = set(features(case))
        (familiar if shown <= seen else novel).append(index)
        seen |= shown
    kept, size = [], 0
    for index in (*novel, *familiar):
        size += len(json.dumps(cases[index]))
        if size > budget:
            break
        kept.append(index)
    return [cases[index] for index in sorted(kept)]


def compact(source: Path, target: Path, budget: int) -> dict[str, tuple[int, int]]:
    """Writes each kind's file into `target`; how many cases and compressed bytes each of them has."""
    files = sorted(path for path in source.iterdir() if path.is_file() and kind_of(path) in ANSWERS)
    full = {path.name.partition(".")[0]: [without_debug(case) for case in read_cases(path)] for path in files}
    size = sum(len(packed(cases)) for cases in full.values())
    target.mkdir(exist_ok=True)
    written = {}
    for name, cases in full.items():
        if size > budget:
            cases = select(cases, budget / size * sum(len(json.dumps(case)) for case in cases))
        data = packed(cases)
        (target / f"{name}.jsonl.gz").write_bytes(data)
        written[name] = len(cases), len(data)
    return written


def main(arguments: list[str]) -> int:
    """One line per kind, then the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="holds <kind>.jsonl or <kind>.jsonl.gz")
    parser.add_argument("--budget-mb", type=float, default=6.0, help="compressed size of everything (default: 6)")
    chosen = parser.parse_args(arguments)
    written = compact(chosen.directory, DATA, int(chosen.budget_mb * MEGABYTE))
    for name, (cases, size) in written.items():
        sys.stdout.write(f"{name:20} {cases:6} cases {size:9} bytes\n")
    sys.stdout.write(f"{'all':20} {sum(row[0] for row in written.values()):6} cases ")
    sys.stdout.write(f"{sum(row[1] for row in written.values()):9} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
