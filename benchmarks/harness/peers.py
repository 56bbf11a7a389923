"""earlyoom and nohang on the same process, by the memory of the whole machine, for that is what they watch.

Each runs in a pid namespace in which there is nothing but the growing process: others on the machine may be larger, or
cross the line on their own, and must not pay for a benchmark.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.harness.trial import MEMINFO, Grower, Reaction, TrialFailed, trial

# The nearer the line, the more often they look: 100 ms is the least of both. It takes the machine's own ups and downs
# to stay on this side of it until the process grows.
HEADROOM_MIB = 400
MOST_MIB = 900
_SETTLE = 2.0
_PATIENCE = 15.0
_NOHANG_CONFIG = Path("/etc/nohang/nohang.conf")
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Peer:
    """`command` makes the arguments from the line, in KiB of MemAvailable, and a directory for files."""

    name: str
    command: Callable[[int, Path], list[str]]

    def run(self, grower: Grower, scratch: Path) -> Reaction:
        """One process, which may grow until 400 MiB less are available than now."""
        line_kib = available_kib() - HEADROOM_MIB * 1024
        with trial(grower, scratch, MEMINFO, MOST_MIB) as each:
            # The shell must stay the first process of the namespace, because none of the programs ends that one.
            script = (
                f"{shlex.join(self.command(line_kib, scratch))} >/dev/null 2>&1 & {shlex.join(each.arguments)}; true"
            )
            command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                each.await_start(_PATIENCE)
                time.sleep(_SETTLE)
                each.go()
                return each.reaction(-line_kib * 1024, each.await_death(_PATIENCE))
            finally:
                process.kill()
                process.wait()


def installed_peers() -> Iterator[Peer | str]:
    """Those that can take part, and of the others why they cannot."""
    for name, command in (("earlyoom", _earlyoom), ("nohang", _nohang)):
        program = shutil.which(name, path=_SYSTEM_PATH)
        if program is None:
            yield f"{name} is not installed"
        elif name == "nohang" and available_kib() - HEADROOM_MIB * 1024 > _meminfo("MemTotal") // 2:
            yield "nohang takes no line above half of the memory, and more than that is available"
        else:
            yield Peer(name, partial(command, program))


def available_kib() -> int:
    """By the kernel's own estimate."""
    return _meminfo("MemAvailable")


def _earlyoom(program: str, line_kib: int, _scratch: Path) -> list[str]:
    # -s 100: swap is never the reason to wait.
    return [program, "-M", f"{line_kib},{line_kib // 2}", "-s", "100", "-r", "0"]


def _nohang(program: str, line_kib: int, scratch: Path) -> list[str]:
    text = _NOHANG_CONFIG.read_text()
    for key, value in (("soft", line_kib), ("hard", line_kib // 2)):
        text = re.sub(rf"(?m)^{key}_threshold_min_mem.*", f"{key}_threshold_min_mem = {value // 1024} M", text)
        text = re.sub(rf"(?m)^{key}_threshold_min_swap.*", f"{key}_threshold_min_swap = 100 %", text)
    config = scratch / "nohang.conf"
    config.write_text(text)
    return [program, "--monitor", "-c", str(config)]


def _meminfo(key: str) -> int:
    found = re.search(rf"(?m)^{key}:\s+(\d+) kB", MEMINFO.read_text())
    if found is None:
        raise TrialFailed(f"/proc/meminfo has no {key}")
    return int(found[1])
