"""Which group a user gets that names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from jettison.runtimes.host.processes.confinement import NO_GROUP, group_of


@pytest.mark.parametrize(
    ("user", "asked", "expected"),
    [
        (None, None, None),
        (None, 5, 5),
        (0, None, 0),
        (33, None, 34),  # as the list of users has it
        (11, None, 11),  # the list gives it root's
        (1000, None, 1000),
        (42, None, NO_GROUP),  # 42 is the group that reads passwords
        (42, 7, 7),
        (7, None, 7),
    ],
)
def test_the_group_of_a_user(tmp_path: Path, user: int | None, asked: int | None, expected: int | None) -> None:
    users, groups = tmp_path / "passwd", tmp_path / "group"
    users.write_bytes(b"root:x:0:0::/:/bin/sh\nwww:x:33:34::/:/bin/sh\noperator:x:11:0::/:/bin/sh\n\xff\nx:y:7:z\n\n")
    groups.write_bytes(b"root:x:0:\nshadow:x:42:\nbroken\n")
    assert group_of(user, asked, str(users), str(groups)) == expected


def test_a_host_without_lists(tmp_path: Path) -> None:
    assert group_of(1000, None, str(tmp_path / "a"), str(tmp_path / "b")) == 1000
