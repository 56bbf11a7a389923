"""A container runtime's log, back to what the container wrote."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.node.logs.box_lines import BoxLines

FIRST, SECOND = b"2026-11-17T03:46:57.546551083Z", b"2026-11-17T05:46:58+01:00"
LOG = (
    FIRST
    + b" stdout F one\n"
    + SECOND
    + b" stderr P two \n"
    + SECOND
    + b" stderr F and more\n"
    + SECOND
    + b" stdout F \n"
    + b"torn line\n"
)


def test_lines_are_whole_again_with_or_without_their_times() -> None:
    assert BoxLines(has_times=False).read(LOG) == b"one\ntwo and more\n\ntorn line\n"
    second = b"2026-11-17T05:46:58.000000000+01:00"
    wanted = FIRST + b" one\n" + second + b" two and more\n" + second + b" \ntorn line\n"
    assert BoxLines(has_times=True).read(LOG) == wanted


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"2026-11-17T16:47:28.733622277+00:00", b"2026-11-17T16:47:28.733622277Z"),  # CRI-O
        (b"2026-11-17T16:47:28.73Z", b"2026-11-17T16:47:28.730000000Z"),  # containerd
        (b"2026-11-17T16:47:28Z", b"2026-11-17T16:47:28.000000000Z"),
        (b"2026-11-17T16:47:28.1-03:30", b"2026-11-17T16:47:28.100000000-03:30"),
        (b"yesterday", b"yesterday"),
    ],
)
def test_times_look_alike_whichever_runtime_has_written_them(written: bytes, shown: bytes) -> None:
    """As a kubelet shows them: a client may cut them at a fixed place."""
    assert BoxLines(has_times=True).read(written + b" stdout F x\n") == shown + b" x\n"


@pytest.mark.parametrize(("seconds", "wanted"), [(57, b"one\n"), (58, b""), (59, None)])
def test_older_lines_are_left_out(seconds: int, wanted: bytes | None) -> None:
    """03:46:57 comes before 05:46:58+01:00, which is 04:46:58."""
    since_ns = (1794887160 + seconds) * 10**9
    found = BoxLines(has_times=False, since_ns=since_ns).read(LOG)
    assert found == (wanted or b"") + b"two and more\n\ntorn line\n"


@given(st.lists(st.integers(1, len(LOG) - 1), max_size=6))
def test_a_log_may_come_in_pieces(cuts: list[int]) -> None:
    """Half a line waits for its other half."""
    lines, places = BoxLines(has_times=False), [0, *sorted(cuts), len(LOG)]
    found = b"".join(lines.read(LOG[start:end]) for start, end in pairwise(places))
    assert found == b"one\ntwo and more\n\ntorn line\n"
    assert lines.rest == b""


def test_a_line_without_an_end_does_not_fill_our_memory() -> None:
    lines = BoxLines(has_times=False)
    for _ in range(40):
        lines.read(b"x" * 65536)
    assert len(lines.rest) <= 1024 * 1024


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_shown(data: bytes, has_times: bool) -> None:
    """Whatever stands there, each line comes out as some line, or goes on in the next."""
    found = BoxLines(has_times=has_times, since_ns=0).read(data + b"\n")
    assert found.count(b"\n") <= data.count(b"\n") + 1
