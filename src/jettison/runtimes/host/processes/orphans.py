"""Dead processes of pods that no parent reaps.

A dead process keeps its process id until its parent has asked for its status. When a fork bomb is killed, hundreds of
dead processes go to process 1, which on some machines takes seconds or never asks; until then the node is as short of
process ids as before, and the next pod is blamed. So while an agent runs, the orphans of its pods come to it instead.

No status is taken from a caller that waits for it. A container's process, and every command that the agent runs in one,
leads a session of its own and is held by its caller; every other child of the agent stays in the agent's session, or
has a caller that waits for it. An orphan is therefore a process that is in a foreign session without leading it, or
that leads one, is not held and was not asked for within half a second, which is enough for every caller.
"""

from __future__ import annotations

import asyncio
import os

from jettison.clock import to_next_beat
from jettison.runtimes.host.processes import system_calls
from jettison.runtimes.host.processes.processes import is_awaited
from jettison.runtimes.linux.processes import Process, read_process, read_processes

# A pass over 4 takes 0.15 ms, and holds up the loop so long.
_MOST_AT_ONCE = 4
# Of those that a thread has read already: only to ask is left, at 2 µs each.
_MOST_BEHIND = 100
_LEADERS_SECONDS = 0.5
# Between two looks: often while there is something to be found.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_NO_PAUSE = 0.001


class Orphans:
    """Those that came to this process. Belongs to one event loop."""

    def __init__(self) -> None:
        # Leaders of sessions that are dead: by number and instant of birth, when each was first seen.
        self._leaders: dict[tuple[int, int], float] = {}
        # A dead child that is no orphan and hides the others: its number, and since when. When it was looked behind.
        self._hiding = 0, 0.0
        self._looked_behind = float("-inf")

    async def reap_for_ever(self) -> None:
        """What pods orphan comes to us as long as this runs."""
        pause, loop = _FIRST_PAUSE, asyncio.get_running_loop()
        try:
            while True:
                # Said again each time: another node in this process may have ended and taken it back.
                system_calls.inherit_orphans(wanted=True)
                count = await self.reap()
                pause = _FIRST_PAUSE if count else 2 * pause
                if pause >= _LONGEST_PAUSE:
                    pause = _LONGEST_PAUSE
                    await asyncio.sleep(to_next_beat(loop.time(), pause))
                else:
                    await asyncio.sleep(_NO_PAUSE if count >= _MOST_AT_ONCE else pause)
        finally:
            system_calls.inherit_orphans(wanted=False)

    async def reap(self) -> int:
        """Take notice of the dead, at most so many at once; returns how many there were."""
        count = 0
        while count < _MOST_AT_ONCE and (pid := _first_dead()):
            process = read_process(pid)
            if process is None or not self._is_orphan(process):
                return count + await self._look_behind(pid)
            count += _ask(pid)
        if not count:
            self._leaders.clear()
        return count

    async def _look_behind(self, pid: int) -> int:
        """This one hides the others. What holds it asks for it in a moment, unless that has gone with an event loop of
        its own; a leader of a session that nothing holds stays for half a second, and a child that this process had
        before it became an agent stays for good. Then all processes of the machine are read to find the others. In a
        thread, because that takes 20 µs for each.
        """
        now = asyncio.get_running_loop().time()
        if self._hiding[0] != pid:
            self._hiding = pid, now
        patience = _LEADERS_SECONDS if is_awaited(pid) else 0.0
        if now - self._hiding[1] < patience or now - self._looked_behind < _LEADERS_SECONDS / 2:
            return 0
        self._looked_behind = now
        dead = [process for process in await asyncio.to_thread(_dead_children) if self._is_orphan(process)]
        return sum(_ask(process.pid) for process in dead[:_MOST_BEHIND])

    def _is_orphan(self, process: Process) -> bool:
        if process.session == os.getsid(0) or is_awaited(process.pid):
            return False
        if process.session != process.pid:
            return True
        now = asyncio.get_running_loop().time()
        since = self._leaders.setdefault((process.pid, process.start_ticks), now)
        return now - since >= _LEADERS_SECONDS


def _first_dead() -> int:
    """0 without one."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return 0 if found is None else found.si_pid


def _dead_children() -> list[Process]:
    own = os.getpid()
    return [process for process in read_processes() if process.is_zombie and process.parent == own]


def _ask(pid: int) -> int:
    try:
        return int(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None)
    except ChildProcessError:
        return 0  # another caller in this process was faster
