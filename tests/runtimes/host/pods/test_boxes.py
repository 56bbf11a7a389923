"""How a container on a container runtime ended, as far as the kernel tells."""

from __future__ import annotations

import pytest

from jettison.runtimes.host.pods.boxes import is_end_known


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
