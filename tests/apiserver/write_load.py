"""A process that writes to a store as fast as it can and says what is durable; made to be killed.

Every turn changes two objects together, which must never be seen apart, and now and then removes or makes one.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from jettison.apiserver.resources import LEASES
from jettison.apiserver.store import Store

WRITERS = 8


async def write(store: Store, writer: int) -> None:
    names = (f"left-{writer}", f"right-{writer}")
    found = store.get(LEASES, "x", names[0])
    turn = 0 if found is None else found.object["turn"]
    while True:
        turn += 1
        for name in names:
            metadata = {"name": name, "namespace": "x"}
            last = store.put(LEASES, "x", name, {"metadata": metadata, "turn": turn, "weight": "w" * 500})
        passing = f"passing-{writer}"
        if turn % 3 == 0:
            last = store.put(LEASES, "x", passing, {"metadata": {"name": passing, "namespace": "x"}, "turn": turn})
        elif turn % 3 == 1 and store.head(LEASES, "x", passing) is not None:
            last = store.remove(LEASES, "x", passing)
        await store.durable(last)
        sys.stdout.write(f"{writer} {turn} {last.version}\n")
        sys.stdout.flush()


async def main(folder: Path) -> None:
    store = Store(folder, history=200)
    await asyncio.gather(*(write(store, writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
