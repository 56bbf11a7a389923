"""The system calls that a container with `seccompProfile: RuntimeDefault` cannot make.

It refuses what the default profiles of containerd and Docker refuse: what reaches the kernel itself or another
namespace, and what has had more holes than uses. Most of it root alone may do anyway; the point is a bug in a call that
no program in the container needs. The profile is a program for the kernel's packet filter, which looks at the number of
each call and sometimes at its first argument. A number that this list does not know yet is answered with ENOSYS, as by
an older kernel: programs know how to go on without.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from functools import cache

from jettison.runtimes.host.processes.capabilities import mask

# The call's number on x86_64 and on aarch64 (None: it has none), and the capability whose holder may make it; empty:
# no capability makes up for it. From 424 on all architectures have the same numbers.
_REFUSED: tuple[tuple[int | None, int | None, tuple[str, ...]], ...] = (
    (163, 89, ("SYS_PACCT",)),  # acct
    (248, 217, ()),  # add_key
    (183, None, ()),  # afs_syscall
    (321, 280, ("SYS_ADMIN", "BPF")),  # bpf
    (227, 112, ("SYS_TIME",)),  # clock_settime
    (174, None, ()),  # create_module
    (176, 106, ("SYS_MODULE",)),  # delete_module
    (300, 262, ("SYS_ADMIN",)),  # fanotify_init
    (313, 273, ("SYS_MODULE",)),  # finit_module
    (431, 431, ("SYS_ADMIN",)),  # fsconfig
    (432, 432, ("SYS_ADMIN",)),  # fsmount
    (430, 430, ("SYS_ADMIN",)),  # fsopen
    (433, 433, ("SYS_ADMIN",)),  # fspick
    (177, None, ()),  # get_kernel_syms
    (239, 236, ("SYS_NICE",)),  # get_mempolicy
    (181, None, ()),  # getpmsg
    (175, 105, ("SYS_MODULE",)),  # init_module
    (425, 425, ()),  # io_uring_setup
    (426, 426, ()),  # io_uring_enter
    (427, 427, ()),  # io_uring_register
    (173, None, ("SYS_RAWIO",)),  # ioperm
    (172, None, ("SYS_RAWIO",)),  # iopl
    (312, 272, ("SYS_PTRACE",)),  # kcmp
    (320, 294, ()),  # kexec_file_load
    (246, 104, ()),  # kexec_load
    (250, 219, ()),  # keyctl
    (212, 18, ("SYS_ADMIN",)),  # lookup_dcookie
    (237, 235, ("SYS_NICE",)),  # mbind
    (256, 238, ()),  # migrate_pages
    (165, 40, ("SYS_ADMIN",)),  # mount
    (442, 442, ("SYS_ADMIN",)),  # mount_setattr
    (429, 429, ("SYS_ADMIN",)),  # move_mount
    (279, 239, ()),  # move_pages
    (180, 42, ()),  # nfsservctl
    (304, 265, ("DAC_READ_SEARCH",)),  # open_by_handle_at
    (428, 428, ("SYS_ADMIN",)),  # open_tree
    (467, 467, ("SYS_ADMIN",)),  # open_tree_attr
    (298, 241, ("SYS_ADMIN", "PERFMON")),  # perf_event_open
    (438, 438, ("SYS_PTRACE",)),  # pidfd_getfd
    (155, 41, ()),  # pivot_root
    (440, 440, ("SYS_PTRACE",)),  # process_madvise
    (182, None, ()),  # putpmsg
    (178, None, ()),  # query_module
    (179, 60, ("SYS_ADMIN",)),  # quotactl
    (443, 443, ("SYS_ADMIN",)),  # quotactl_fd
    (169, 142, ("SYS_BOOT",)),  # reboot
    (249, 218, ()),  # request_key
    (185, None, ()),  # security
    (238, 237, ("SYS_NICE",)),  # set_mempolicy
    (450, 450, ("SYS_NICE",)),  # set_mempolicy_home_node
    (171, 162, ("SYS_ADMIN",)),  # setdomainname
    (170, 161, ("SYS_ADMIN",)),  # sethostname
    (308, 268, ("SYS_ADMIN",)),  # setns
    (164, 170, ("SYS_TIME",)),  # settimeofday
    (168, 225, ()),  # swapoff
    (167, 224, ()),  # swapon
    (156, None, ()),  # _sysctl
    (139, None, ()),  # sysfs
    (103, 116, ("SYS_ADMIN", "SYSLOG")),  # syslog
    (184, None, ()),  # tuxcall
    (166, 39, ("SYS_ADMIN",)),  # umount2
    (272, 97, ("SYS_ADMIN",)),  # unshare
    (134, None, ()),  # uselib
    (323, 282, ()),  # userfaultfd
    (136, None, ()),  # ustat
    (153, 58, ("SYS_TTY_CONFIG",)),  # vhangup
    (236, None, ()),  # vserver
)
_CLONE, _CLONE3, _PERSONALITY, _SOCKET = (56, 220), (435, 435), (135, 92), (41, 198)
_LAST_KNOWN = 469

# AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64: what the kernel says of each call, whatever the program's file claims.
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# The namespaces that clone can make: mount, cgroup, uts, ipc, user, pid, net.
_NEW_NAMESPACES = 0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000
# Linux, old 32-bit address layouts, and the question what it is.
_PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
_AF_VSOCK = 40

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _IF_EQUAL, _IF_GREATER, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_DENIED, _UNKNOWN = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS


def has_profile() -> bool:
    """Whether the calls of this machine are known by their numbers."""
    return os.uname().machine in _MACHINES


@cache
def default_profile(added: int, machine: str | None = None) -> bytes:
    """The program for a container that was given these capabilities beyond the default ones."""
    column, architecture = _MACHINES[machine or os.uname().machine]
    program = [
        _INSTRUCTION.pack(_LOAD, 0, 0, _MACHINE_AT),
        # A call for another machine (32 bits, say) has other numbers. No honest program changes over half-way.
        _INSTRUCTION.pack(_IF_EQUAL, 1, 0, architecture),
        _INSTRUCTION.pack(_RETURN, 0, 0, _KILL_PROCESS),
        _INSTRUCTION.pack(_LOAD, 0, 0, _NUMBER_AT),
        # x32 is x86_64 with bit 30 set in every number: it is unknown as well.
        _INSTRUCTION.pack(_IF_GREATER, 0, 1, _LAST_KNOWN),
        _INSTRUCTION.pack(_RETURN, 0, 0, _UNKNOWN),
    ]
    for on_x86, on_arm, capabilities in _REFUSED:
        number = (on_x86, on_arm)[column]
        if number is not None and not mask(capabilities) & added:
            program += _refuse(number, _DENIED)
    if not mask(("SYS_ADMIN",)) & added:
        # Its flags lie in memory, where no filter can look. Every libc falls back to clone.
        program += _refuse(_CLONE3[column], _UNKNOWN)
        program += _inspect(_CLONE[column], [_INSTRUCTION.pack(_IF_ANY_BIT, 0, 1, _NEW_NAMESPACES)])
    program += _inspect(_SOCKET[column], [_INSTRUCTION.pack(_IF_EQUAL, 0, 1, _AF_VSOCK)])
    known = [_INSTRUCTION.pack(_IF_EQUAL, len(_PERSONALITIES) - i, 0, it) for i, it in enumerate(_PERSONALITIES)]
    program += _inspect(_PERSONALITY[column], known)
    program.append(_INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW))
    return b"".join(program)


def _refuse(number: int, answer: int) -> Iterator[bytes]:
    yield _INSTRUCTION.pack(_IF_EQUAL, 0, 1, number)
    yield _INSTRUCTION.pack(_RETURN, 0, 0, answer)


def _inspect(number: int, tests: list[bytes]) -> Iterator[bytes]:
    """One call by the low half of its first argument: the instruction behind the tests refuses, the next one allows."""
    yield _INSTRUCTION.pack(_IF_EQUAL, 0, len(tests) + 3, number)
    yield _INSTRUCTION.pack(_LOAD, 0, 0, _FIRST_ARGUMENT_AT)
    yield from tests
    yield _INSTRUCTION.pack(_RETURN, 0, 0, _DENIED)
    yield _INSTRUCTION.pack(_RETURN, 0, 0, _ALLOW)
