"""The disk layout as rankings and reclaims tell it apart (spec §2.7, §3.2)."""

from __future__ import annotations

import pytest

from jettison.engine.node.snapshot import Disks, Layout


@pytest.mark.parametrize(
    ("has_image_fs", "is_split", "disks"),
    [
        (False, False, Disks.SHARED),
        (True, False, Disks.DEDICATED),
        (True, True, Disks.SPLIT),
        (False, True, Disks.SHARED),
    ],
)
def test_two_questions_make_three_layouts(has_image_fs: bool, is_split: bool, disks: Disks) -> None:
    """Split without a dedicated image filesystem counts as one filesystem, as upstream has it."""
    assert Layout(has_image_fs, is_split).disks is disks
