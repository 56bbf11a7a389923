"""What this process may do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.capabilities import (
    Capabilities,
    Capability,
    lowest_oom_score_adj,
    read_capabilities,
)

INITIAL = "         0          0 4294967295\n"


def write_status(proc: Path, mask: str, uid_map: str | None = INITIAL) -> None:
    (proc / "self/status").write_text(f"Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t{mask}\nCapBnd:\t0\n")
    if uid_map is not None:
        (proc / "self/uid_map").write_text(uid_map)


@pytest.mark.parametrize("uid_map", [INITIAL, None])
def test_bits_are_capabilities(fake_proc: Path, uid_map: str | None) -> None:
    write_status(fake_proc, "000001fffeffffff", uid_map)

    capabilities = read_capabilities(fake_proc)

    assert capabilities.missing == (Capability.SYS_RESOURCE,)
    assert capabilities.has(Capability.KILL)


def test_nobody_has_none(fake_proc: Path) -> None:
    write_status(fake_proc, "0000000000000000")

    assert read_capabilities(fake_proc) == Capabilities(frozenset(), is_in_initial_namespace=True)


def test_in_a_user_namespace_of_its_own_they_count_for_nothing(fake_proc: Path) -> None:
    write_status(fake_proc, "000001ffffffffff", "0 1000 1\n")

    capabilities = read_capabilities(fake_proc)

    assert Capability.SYS_ADMIN in capabilities.effective
    assert not capabilities.has(Capability.SYS_ADMIN)


@pytest.mark.parametrize("content", ["", "CapEff:\tzz\n", "XCapEff:\t0\n"])
def test_a_status_without_the_line_is_an_error(fake_proc: Path, content: str) -> None:
    (fake_proc / "self/status").write_text(content)

    with pytest.raises(ObservationError, match="CapEff"):
        read_capabilities(fake_proc)


@pytest.mark.parametrize(("mask", "lowest"), [("0000000001000000", -1000), ("0000000000000000", 200)])
def test_the_lowest_score_depends_on_one_capability(fake_proc: Path, mask: str, lowest: int) -> None:
    write_status(fake_proc, mask)
    (fake_proc / "self/oom_score_adj").write_text("200\n")

    assert lowest_oom_score_adj(fake_proc) == lowest


def test_the_kernel_agrees_about_the_lowest_score(spawn: Callable[[str], Popen[bytes]]) -> None:
    """A child asks for one less than what we say is the lowest, and for exactly that."""
    lowest = lowest_oom_score_adj()
    assert lowest is not None
    child = spawn(
        "def ask(n):\n"
        "    try: open('/proc/self/oom_score_adj', 'wb', 0).write(b'%d' % n); return 'yes'\n"
        "    except OSError: return 'no'\n"
        f"print(ask({lowest - 1}), ask({lowest}), flush=True)"
    )

    assert child.communicate()[0] == b"no yes\n"
