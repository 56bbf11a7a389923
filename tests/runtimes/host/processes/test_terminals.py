"""Terminals that live as long as their process: found again, taken by one client, emptied at its end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jettison.errors import StartError, WriteError
from jettison.runtimes.host.processes.terminals import (
    HeldTerminal,
    empty_terminal,
    find_terminal,
    make_terminal,
    take_terminal,
)
from tests.runtimes.host.nodes import needs_root


@contextmanager
def pair() -> Iterator[tuple[int, int]]:
    master, own = make_terminal(None)
    try:
        yield master, own
    finally:
        os.close(master)
        os.close(own)


@contextmanager
def process(own: int, *inherited: int, has_terminal: bool = True) -> Iterator[int]:
    """One that has inherited these descriptors, and leads a session, in the terminal or not."""
    words = ["setsid", *(["--ctty"] if has_terminal else []), "sleep", "60"]
    with subprocess.Popen(words, stdin=own, stdout=own, stderr=own, pass_fds=inherited) as found:
        try:
            while Path(f"/proc/{found.pid}/comm").read_text() != "sleep\n":
                time.sleep(0.01)
            yield found.pid
        finally:
            found.kill()


@needs_root
def test_the_master_of_its_own_terminal_is_found_among_others() -> None:
    """A program may hold masters of terminals that it has made itself."""
    with pair() as (other, _), pair() as (master, own), process(own, other, master) as pid:
        found = find_terminal(pid)
        try:
            os.write(own, b"said\n")
            assert os.read(found, 100) == b"said\r\n"
        finally:
            os.close(found)


@needs_root
def test_without_a_terminal_or_its_master_none_is_found() -> None:
    with pair() as (master, own):
        with process(own, master, has_terminal=False) as pid:
            assert find_terminal(pid) == -1
        with process(own) as pid:
            assert find_terminal(pid) == -1
        assert find_terminal(pid) == -1


@needs_root
def test_one_client_at_a_time_takes_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    with pair() as (master, own):
        held = HeldTerminal(os.getpid(), master, str(log))
        taken = take_terminal(held)
        with pytest.raises(StartError, match="another client is attached"):
            take_terminal(held)
        os.write(own, b"for the client\n")
        with log.open("ab") as writer:
            asyncio.run(empty_terminal(master, writer.fileno()))
        assert os.read(taken[0], 100) == b"for the client\r\n"
        for each in taken:
            os.close(each)
        for each in take_terminal(held):
            os.close(each)
        assert log.read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "why"), [("log", "the kernel refuses it, or it is gone"), ("missing", "cannot open the log")]
)
def test_what_cannot_be_taken_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "log").touch()
    with pytest.raises(StartError, match=why):
        take_terminal(HeldTerminal(2**22 - 1, 10_000, str(tmp_path / name)))


def test_what_waits_in_it_goes_into_the_log_as_far_as_there_is_room(tmp_path: Path) -> None:
    with pair() as (master, own):
        with (tmp_path / "log").open("ab") as log:
            asyncio.run(empty_terminal(master, log.fileno()))
            os.write(own, b"last\nwords\n")
            asyncio.run(empty_terminal(master, log.fileno()))
        assert (tmp_path / "log").read_bytes() == b"last\r\nwords\r\n"
        os.write(own, b"lost\n")
        full = os.open("/dev/full", os.O_WRONLY)
        try:
            with pytest.raises(WriteError, match="no space left"):
                asyncio.run(empty_terminal(master, full))
        finally:
            os.close(full)


def test_a_process_that_makes_its_master_block_is_not_waited_for(tmp_path: Path) -> None:
    """It shares the master: what either of the two says about blocking holds for both."""
    with pair() as (master, own), (tmp_path / "log").open("ab") as log:
        os.set_blocking(master, True)
        with pytest.raises(WriteError, match="a process keeps it from being read"):
            asyncio.run(empty_terminal(master, log.fileno()))
        os.write(own, b"at last\n")
        while not (tmp_path / "log").read_bytes():
            time.sleep(0.01)


def test_a_process_that_goes_on_writing_is_not_followed(tmp_path: Path) -> None:
    with pair() as (master, own), (tmp_path / "log").open("ab") as log:
        tty.setraw(own)
        os.set_blocking(master, True)
        writing = subprocess.Popen(["cat", "/dev/zero"], stdout=own)
        try:
            asyncio.run(empty_terminal(master, log.fileno()))
        finally:
            writing.kill()
            writing.wait()
        assert (tmp_path / "log").stat().st_size < 1 << 20
