"""What systemd is told of slices, and what becomes of its answers. `tests/live/test_systemd.py` has a real one."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.errors import WriteError
from jettison.events import ActionFailed, Fact
from jettison.runtimes.linux import systemd
from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits
from jettison.runtimes.linux.systemd import SliceUnits, Systemd, drop_slice, hold_slice, slice_properties

ERROR, ANSWER, SIGNAL = 3, 2, 4


def at(path: Path, patience: float = 10.0) -> Systemd:
    return Systemd(SystemClock(), path, patience)


def text(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode() + b"\0"


def field(code: int, kind: str, value: bytes) -> bytes:
    return bytes([code, 1]) + kind.encode() + b"\0" + value


def said(kind: int, *fields: bytes, body: bytes = b"") -> bytes:
    """A message from systemd."""
    head = b""
    for each in fields:
        head += bytes(-len(head) % 8) + each
    padding = bytes(-len(head) % 8)
    return struct.pack("<cBBBIII", b"l", kind, 0, 1, len(body), 7, len(head)) + head + padding + body


def error(name: str) -> bytes:
    return said(ERROR, field(4, "s", text(name)), field(5, "u", struct.pack("<I", 1)))


def answer(path: str, serial: int = 1) -> bytes:
    signature = field(8, "g", b"\x01o\0")
    return said(ANSWER, field(5, "u", struct.pack("<I", serial)), signature, body=text(path))


NEWS = said(SIGNAL, field(3, "s", text("UnitNew")), field(8, "g", b"\x02so\0"), body=text("a.slice"))


def removed(job: str) -> bytes:
    return said(SIGNAL, field(3, "s", text("JobRemoved")), body=struct.pack("<I", 4) + text(job))


@contextmanager
def spoken_to(path: Path, *answers: bytes, greeting: bytes = b"OK 0123\r\n") -> Iterator[list[bytes]]:
    """A socket that sends one of these after each message, to one client; yields what it was told."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                start = b""
                while not start.endswith(b"BEGIN\r\n"):
                    start += client.recv(1)
                client.sendall(greeting)
                for each in answers:
                    heard.append(client.recv(65536))
                    client.sendall(each)

        thread = threading.Thread(target=serve)
        thread.start()
        yield heard
        thread.join()


def test_limits_have_the_names_and_amounts_of_systemd() -> None:
    limits = Limits(memory=2**20, cpu_shares=512, cpu_quota_us=50_000, pids=UNLIMITED)
    own = {name: value for name, _, value in slice_properties(limits, is_unified=False)}
    assert own == {
        "CPUAccounting": True,
        "MemoryAccounting": True,
        "TasksAccounting": True,
        "MemoryMax": 2**20,
        "CPUShares": 512,
        "CPUQuotaPerSecUSec": 500_000,
        "TasksMax": 2**64 - 1,
    }
    unified = {name: value for name, _, value in slice_properties(Limits(cpu_shares=1024), is_unified=True)}
    assert unified["CPUWeight"] == 100
    assert "MemoryMax" not in unified


def test_a_call_is_written_as_dbus_wants_it() -> None:
    """As for a bus, but without a destination: there is nothing but systemd at the other end."""
    told = systemd.message(1, "StopUnit", "ss", ["a.slice", "replace"])
    assert struct.unpack_from("<cBBBII", told) == (b"l", 1, 0, 1, 24, 1)
    (length,) = struct.unpack_from("<I", told, 12)
    body = told[16 + length + -length % 8 :]
    assert body == text("a.slice") + text("replace")
    assert text("/org/freedesktop/systemd1") in told
    assert b"\x08\x01g\0\x02ss\0" in told


def test_a_slice_that_is_there_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "private"
    done = said(ANSWER, field(5, "u", struct.pack("<I", 2)))
    with spoken_to(path, NEWS + error("org.freedesktop.systemd1.UnitExists"), NEWS + done) as heard:
        hold_slice("a.slice", slice_properties(Limits(pids=5), is_unified=True), at(path))
    assert [name in told for name, told in zip((b"StartTransientUnit", b"SetUnitProperties"), heard, strict=True)] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    "told",
    [
        answer("/job/9") + removed("/job/8") + NEWS + removed("/job/9"),
        error("org.freedesktop.systemd1.NoSuchUnit"),
    ],
)
def test_a_slice_is_gone_when_its_job_is_or_when_there_is_none(tmp_path: Path, told: bytes) -> None:
    with spoken_to(tmp_path / "private", told) as heard:
        drop_slice("a.slice", at(tmp_path / "private"))
    assert [b"StopUnit" in each for each in heard] == [True]


@pytest.mark.parametrize(
    ("answers", "greeting", "why"),
    [
        ([error("org.freedesktop.DBus.Error.AccessDenied")], b"OK 1\r\n", "answers org.freedesktop.DBus.Error.Access"),
        ([], b"REJECTED EXTERNAL\r\n", "refuses us"),
        ([answer("/job/1")[:-9]], b"OK 1\r\n", "it has closed the connection"),
        ([struct.pack("<cBBBIII", b"l", 2, 0, 1, 0, 1, 8) + b"\5\1u\0\1\0\0"], b"OK 1\r\n", "closed the connection"),
        ([said(ANSWER, b"\5")], b"OK 1\r\n", "it sends no message of D-Bus: index out of range"),
        ([struct.pack("<cBBBIII", b"l", 2, 0, 1, 2**31, 1, 0)], b"OK 1\r\n", "sends a message of 2147483648 bytes"),
    ],
)
def test_what_systemd_does_not_do_is_told(tmp_path: Path, answers: list[bytes], greeting: bytes, why: str) -> None:
    path = tmp_path / "private"
    with spoken_to(path, *answers, greeting=greeting), pytest.raises(WriteError, match=why):
        drop_slice("a.slice", at(path))


def test_a_systemd_that_is_not_there_or_silent_is_a_fact(tmp_path: Path) -> None:
    """Orders do not wait for it, and a pod that ends waits no longer than its deadline."""
    facts: list[Fact] = []

    async def tell(order: Callable[[SliceUnits], object]) -> None:
        units = SliceUnits(facts.append, at(tmp_path / "private", 0.1), is_unified=False)
        order(units)
        await asyncio.to_thread(units.close)
        await asyncio.sleep(0)

    asyncio.run(tell(lambda units: units.hold("x.slice/x-a.slice", Limits())))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "private"))
        listener.listen()
        asyncio.run(tell(lambda units: units.drop("x.slice/x-a.slice")))
    told = [(fact.what, fact.why) for fact in facts if isinstance(fact, ActionFailed)]
    begin = f"cannot speak to systemd at `{tmp_path}/private`: "
    assert told == [
        ("tell systemd of x-a.slice", f"{begin}no such file or directory"),
        ("tell systemd of x-a.slice", f"{begin}no answer within 0.1 s"),
    ]


def test_a_slice_is_dropped_once_and_then_known_to_be_gone(tmp_path: Path) -> None:
    """However often it is asked for meanwhile."""

    async def drop() -> None:
        units = SliceUnits(lambda _: None, at(tmp_path / "private"), is_unified=False)
        while not units.drop("x-a.slice"):
            await asyncio.sleep(0.001)
        units.close()

    with spoken_to(tmp_path / "private", answer("/job/1") + removed("/job/1")) as heard:
        asyncio.run(drop())
    assert len(heard) == 1
