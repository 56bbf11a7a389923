"""The profile as the kernel's packet filter would run it, for both machines, without being on either."""

from __future__ import annotations

import errno
import struct

import pytest

from jettison.runtimes.host.processes.capabilities import mask
from jettison.runtimes.host.processes.seccomp import default_profile

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


def answer(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """What the filter says to one call; every jump must stay inside the program."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, argument, 0, 0, 0, 0, 0)
    instructions = list(struct.iter_unpack("=HBBI", program))
    register = at = 0
    while True:
        code, on_true, on_false, value = instructions[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        else:
            holds = {0x15: register == value, 0x25: register > value, 0x45: bool(register & value)}[code]
            at += on_true if holds else on_false


# Numbers from the kernel's own tables, written down apart from those that are tested.
CALLS = {
    "x86_64": {"mount": 165, "unshare": 272, "keyctl": 250, "bpf": 321, "setns": 308, "reboot": 169, "swapon": 167},
    "aarch64": {"mount": 40, "unshare": 97, "keyctl": 219, "bpf": 280, "setns": 268, "reboot": 142, "swapon": 224},
}
HARMLESS = {
    "x86_64": {"read": 0, "execve": 59, "setuid": 105, "capset": 126, "fork": 57, "prctl": 157, "ptrace": 101},
    "aarch64": {"read": 63, "execve": 221, "setuid": 146, "capset": 91, "prctl": 167, "ptrace": 117},
}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_what_is_refused_and_what_is_not(machine: str) -> None:
    profile, own = default_profile(0, machine), ARCHITECTURES[machine]
    assert {name: answer(profile, own, number) for name, number in CALLS[machine].items()} == dict.fromkeys(
        CALLS[machine], EPERM
    )
    assert {name: answer(profile, own, number) for name, number in HARMLESS[machine].items()} == dict.fromkeys(
        HARMLESS[machine], ALLOW
    )
    assert answer(profile, own, 425) == EPERM  # io_uring_setup
    assert answer(profile, own, 435) == ENOSYS  # clone3
    assert answer(profile, own, 10_000) == ENOSYS
    assert answer(profile, own, 0x40000000) == ENOSYS  # x32


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_calls_of_another_architecture_end_the_process(machine: str) -> None:
    profile = default_profile(0, machine)
    others = {I386, ARM, *ARCHITECTURES.values()} - {ARCHITECTURES[machine]}
    assert {answer(profile, other, 0) for other in others} == {KILL}


@pytest.mark.parametrize(
    ("machine", "clone", "socket", "personality"), [("x86_64", 56, 41, 135), ("aarch64", 220, 198, 92)]
)
def test_calls_that_are_judged_by_their_argument(machine: str, clone: int, socket: int, personality: int) -> None:
    profile, own = default_profile(0, machine), ARCHITECTURES[machine]
    assert answer(profile, own, clone, 0x00010F00 | 17) == ALLOW  # a thread, a fork
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(profile, own, clone, flag | 17) == EPERM
    assert [answer(profile, own, socket, family) for family in (1, 2, 10, 16, 40)] == [ALLOW] * 4 + [EPERM]
    known = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)
    assert [answer(profile, own, personality, each) for each in known] == [ALLOW] * 5
    assert [answer(profile, own, personality, each) for each in (1, 0x40000)] == [EPERM] * 2


def test_a_capability_that_was_added_opens_its_calls_and_no_others() -> None:
    calls, own = CALLS["x86_64"], ARCHITECTURES["x86_64"]
    admin = default_profile(mask(("SYS_ADMIN",)), "x86_64")
    opened = {name for name, number in calls.items() if answer(admin, own, number) == ALLOW}
    assert opened == {"mount", "unshare", "bpf", "setns"}
    assert answer(admin, own, 435) == ALLOW
    assert answer(admin, own, 56, 0x10000000) == ALLOW
    assert answer(default_profile(mask(("SYS_BOOT",)), "x86_64"), own, calls["reboot"]) == ALLOW
