"""The history that an agent saved: read by the next agent, and by commands, which load nothing of the recorder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jettison.clock import Clock, Instant
from jettison.engine.node.pressure import History
from jettison.errors import ManifestError, ObservationError
from jettison.manifests.files.plain_files import read_plain
from jettison.manifests.history import SavedHistory, parse_history
from jettison.runtimes.linux.files.kernel_files import reason

LARGEST_HISTORY = 2**20
"""Bytes; one with every signal and threshold has some 10,000."""


def read_history(path: Path) -> SavedHistory | None:
    """What an agent remembered, as it saved it; None when there is none. Raises ObservationError for a damaged one."""
    try:
        return parse_history(read_plain(path, LARGEST_HISTORY), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ObservationError(f"cannot read `{path}`: {reason(error)}") from error
    except ManifestError as error:
        raise ObservationError(str(error)) from error


def by_our_clock(saved: SavedHistory, clock: Clock, boot: str) -> History:
    """What was saved, with times that can be compared with those of our snapshots: none of them is in the future.

    Within one boot it is certain how much time has passed. After another one the wall clock has to tell, as far as it
    can be believed, and no threshold counts as crossed without a break.
    """
    history, at, now = saved.history, saved.at, Instant.of(clock)
    is_same_boot = at is not None and bool(boot) and at.boot_id == boot
    if at is None:
        # Of an older version of this program.
        passed_ns, saved_ns = 0, now.wall_ns
    elif is_same_boot:
        passed_ns, saved_ns = max(now.monotonic_ns - at.monotonic_ns, 0), at.wall_ns
    else:
        passed_ns, saved_ns = now.age_ns(at.wall_ns, is_same_boot=False), at.wall_ns
        history = replace(history, first_observed={}, met=())
    now_ns = clock.steady_ns()
    shifted = history.shifted(now_ns - passed_ns - saved_ns)
    return replace(
        shifted,
        first_observed={each: min(since, now_ns) for each, since in shifted.first_observed.items()},
        condition_observed={each: min(seen, now_ns) for each, seen in shifted.condition_observed.items()},
        conditions=shifted.conditions & shifted.condition_observed.keys(),
        # Whether the next reading is newer than the last one matters only within one process.
        readings={},
    )
