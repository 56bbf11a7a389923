"""Processes that write to a store as fast as they can and say what is durable; made to be killed.

Every turn changes two objects together, which must never be seen apart, and now and then removes or makes one.

Starting Python takes longer than all that is to be seen, so this starts once: for every folder that it reads from its
input it forks a process that writes there, tells its number and waits for its end.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from jettison.apiserver.objects.resources import LEASES
from jettison.apiserver.storage.store import Store

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
        os.write(1, f"{writer} {turn} {last.version}\n".encode())


async def write_all(folder: Path) -> None:
    store = Store(folder, history=200)
    await asyncio.gather(*(write(store, writer) for writer in range(WRITERS)))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(write_all(Path(line.rstrip("\n"))))
        os.write(1, f"started {child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(1, f"ended {os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main()
