"""Containers on a container runtime: how they ended, as far as the kernel tells, and the users they run as."""

from __future__ import annotations

import pytest

from jettison.runtimes.containers import BoxSecurity, FoundImage
from jettison.runtimes.host.pods.boxes import is_end_known, with_image_user


@pytest.mark.parametrize(
    ("exit_code", "is_oom", "is_killed", "is_known"),
    [
        (0, False, False, True),
        (3, False, False, True),
        (137, False, False, False),  # the kernel, another process or the runtime
        (137, False, True, True),
        (137, True, False, True),
        (None, False, False, False),
        (None, False, True, False),
        (None, True, False, False),  # the cgroup was still there to be read, the exit code was not
    ],
)
def test_the_runtime_is_asked_for_what_the_kernel_did_not_tell(
    exit_code: int | None, is_oom: bool, is_killed: bool, is_known: bool
) -> None:
    assert is_end_known(exit_code, is_oom=is_oom, is_killed=is_killed) is is_known


@pytest.mark.parametrize(
    ("own", "image", "user", "name"),
    [
        (BoxSecurity(user=7, group=8), FoundImage("i", "r", 5), 7, ""),
        (BoxSecurity(group=8), FoundImage("i", "r", 5), 5, ""),
        (BoxSecurity(group=8), FoundImage("i", "r", user_name="web"), None, "web"),
        (BoxSecurity(group=8), FoundImage("i", "r"), 0, ""),
        (BoxSecurity(), FoundImage("i", "r", 5), None, ""),  # the runtime knows the image's user and group
    ],
)
def test_a_group_without_a_user_is_that_of_the_images_user(
    own: BoxSecurity, image: FoundImage, user: int | None, name: str
) -> None:
    found = with_image_user(own, image)
    assert (found.user, found.user_name, found.group) == (user, name, own.group)
