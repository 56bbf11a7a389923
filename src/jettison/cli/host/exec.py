"""`jettison exec`: a command inside a container of this machine.

The agent only says how to enter. For a container of processes this process forks, enters the container's cgroup, takes
its identity and executes the command. The files and pipes that are the streams of this process are the command's, so
nothing is copied. Terminals are not: the command has one of its own with `-t`, and pipes without. For a container of a
runtime, that starts the command and streams it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import fcntl
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from jettison.cli.host.ordering import node_of
from jettison.cli.inspect.watched_node import WatchedNode, watched_nodes_options
from jettison.cli.output import remark
from jettison.errors import InputError, StartError
from jettison.node.kubelet.channels import STDERR, Wishes
from jettison.node.kubelet.inside import RuntimeInside
from jettison.runtimes.containers import BoxAddress
from jettison.runtimes.host.processes.processes import Entrance, Process, decode_way_in, enter, seal_descriptors

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_BLOCK = 64 * 1024
# For the last output of a command that has ended. A process that it left behind may keep its terminal open.
_LAST_WORDS_SECONDS = 2.0


class _WithOptionsBeforeDashes(click.Command):
    """Options may also stand between the pod and `--`, as with kubectl: `exec web -c main -- ls -l`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            head, tail = args[: args.index("--")], args[args.index("--") :]
            ctx.allow_interspersed_args, ctx.ignore_unknown_options = True, False
            with suppress(click.UsageError):
                found, _, _ = self.make_parser(ctx).parse_args(list(head))
                pod, words = found.get("pod"), found.get("words")
                # With more words the command has begun, and both the options and `--` are its own.
                if isinstance(pod, str) and not (isinstance(words, tuple) and words):
                    head.remove(pod)
                    args = [*head, pod, *tail]
            ctx.allow_interspersed_args, ctx.ignore_unknown_options = False, True
        return super().parse_args(ctx, args)


@click.command(
    cls=_WithOptionsBeforeDashes,
    short_help="Run a command inside a container of this machine.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-c", "--container", metavar="NAME", help="Which container; without it, the first.")
@click.option("-i", "--stdin", "has_input", is_flag=True, help="Pass standard input to the command.")
@click.option("-t", "--tty", "has_terminal", is_flag=True, help="Give the command a terminal.")
@watched_nodes_options
@click.argument("pod")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND [ARG]...")
def command(
    nodes: Sequence[WatchedNode],
    pod: str,
    words: Sequence[str],
    container: str | None,
    has_input: bool,
    has_terminal: bool,
) -> int:
    """Run COMMAND in a running container of POD: with its cgroup, user, environment, working directory and privileges.

    \b
    jettison exec web -- ls -l
    jettison exec -it web -- sh

    The command ends with the container, and counts against its limits. The exit code is that of the command.
    """
    words = words[1:] if words[:1] == ("--",) else words
    if not words:
        raise InputError("no command: write it after `--`, as in `jettison exec POD -- ls`")
    way = decode_way_in(node_of(nodes, pod).order("exec", pod=pod, container=container))
    if has_terminal and not sys.stdin.isatty():
        remark("note", "Unable to use a TTY - input is not a terminal or the right kind of file")
        has_terminal = False
    if way.box is not None:
        wishes = Wishes(has_input, has_output=True, has_errors=not has_terminal, has_terminal=has_terminal)
        return asyncio.run(_in_box(way.box, words, wishes))
    assert way.entrance is not None
    # A shell or a script of root may have files open that the container must not read.
    seal_descriptors()
    if has_terminal:
        return asyncio.run(_with_terminal(way.entrance, words, has_input=has_input))
    return asyncio.run(_with_our_streams(way.entrance, words, has_input=has_input))


async def _with_our_streams(entrance: Entrance, words: Sequence[str], *, has_input: bool) -> int:
    signals = _Signals()
    streams = _Streams(has_input=has_input)
    try:
        process = await enter(entrance, words, streams.given, has_terminal=False)
    finally:
        streams.let_go()
    streams.carry()
    code = await signals.until_end(process)
    await asyncio.to_thread(streams.finish)
    return code


async def _with_terminal(entrance: Entrance, words: Sequence[str], *, has_input: bool) -> int:
    signals = _Signals()
    ours, theirs = os.openpty()
    _copy_size(ours)
    user = entrance.launch.security.user
    if user is not None:
        # Or it could not open its own /dev/pts/N.
        os.fchown(theirs, user, -1)
    try:
        process = await enter(entrance, words, (theirs, theirs, theirs), has_terminal=True)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, _copy_size, ours)
    reading = threading.Thread(target=_carry, args=(ours, 1), daemon=True)
    with _Raw(0) if has_input else _Unchanged():
        reading.start()
        if has_input:
            threading.Thread(target=_carry, args=(0, ours), daemon=True).start()
        code = await signals.until_end(process)
        await asyncio.to_thread(reading.join, _LAST_WORDS_SECONDS)
    return code


async def _in_box(box: BoxAddress, words: Sequence[str], wishes: Wishes) -> int:
    """A signal ends the connection, and with it the command."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    code = 0

    def leave(number: signal.Signals) -> None:
        nonlocal code
        code = 128 + number
        task.cancel()

    inside = await RuntimeInside.run(box, words, wishes)
    for each in _FORWARDED:
        loop.add_signal_handler(each, leave, each)
    try:
        with _Raw(0) if wishes.has_terminal and wishes.has_input else _Unchanged():
            return await _carried(inside, wishes)
    except asyncio.CancelledError:
        if not code:
            raise
        return code
    finally:
        await inside.close()


async def _carried(inside: RuntimeInside, wishes: Wishes) -> int:
    loop = asyncio.get_running_loop()
    tasks = set[asyncio.Task[None]]()

    def tell_size() -> None:
        size = os.get_terminal_size(0)
        tasks.add(loop.create_task(inside.resize(size.columns, size.lines)))

    if wishes.has_terminal:
        tell_size()
        loop.add_signal_handler(signal.SIGWINCH, tell_size)
    if wishes.has_input:
        threading.Thread(target=_feed, args=(inside, loop), daemon=True).start()
    async for channel, data in inside.output():
        rest = data
        while rest:
            rest = rest[await asyncio.to_thread(os.write, 2 if channel == STDERR else 1, rest) :]
    outcome = await inside.outcome()
    if outcome.exit_code is None:
        raise StartError(outcome.why)
    return outcome.exit_code


def _feed(inside: RuntimeInside, loop: asyncio.AbstractEventLoop) -> None:
    """One piece at a time: the next is read when the runtime has taken the one before."""
    with suppress(OSError, RuntimeError, concurrent.futures.CancelledError):  # the command has ended
        while data := os.read(0, _BLOCK):
            asyncio.run_coroutine_threadsafe(inside.write(data), loop).result()
        asyncio.run_coroutine_threadsafe(inside.end_input(), loop).result()


class _Signals:
    """Signals to this process go to the command, also those that come before it has started: it must not outlive us."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._early: list[signal.Signals] = []
        loop = asyncio.get_running_loop()
        for each in _FORWARDED:
            loop.add_signal_handler(each, self._forward, each)

    async def until_end(self, process: Process) -> int:
        """The exit code."""
        self._process = process
        for each in self._early:
            self._forward(each)
        # Not the future itself, which an interruption would cancel.
        await asyncio.wait([process.exited])
        return process.exited.result() or 0

    def _forward(self, number: signal.Signals) -> None:
        if self._process is None:
            self._early.append(number)
        elif not self._process.exited.done():
            # To its whole group: a shell alone would not pass it on.
            os.killpg(self._process.pid, number)


class _Streams:
    """The streams of a command without a terminal of its own.

    No terminal of ours is among them: whatever the command leaves running in the container would go on reading what is
    typed there, also after the command has ended, and a terminal is open for reading on standard output as well.
    """

    def __init__(self, *, has_input: bool) -> None:
        # Ours to close: what only the command needs, and what is carried from where to where.
        self._theirs: list[int] = []
        self._carried: list[tuple[int, int]] = []
        self._printing: list[threading.Thread] = []
        self.given = (self._input(has_input=has_input), *self._outputs())

    def _input(self, *, has_input: bool) -> int:
        if has_input and not os.isatty(0):
            return 0
        if not has_input:
            self._theirs.append(os.open(os.devnull, os.O_RDONLY))
            return self._theirs[-1]
        theirs, ours = os.pipe()
        self._theirs.append(theirs)
        self._carried.append((0, ours))
        return theirs

    def _outputs(self) -> tuple[int, int]:
        """One pipe for both where they are the same terminal, so that what is written stays in order."""
        found: dict[int, int] = {}
        outputs = []
        for number in (1, 2):
            output = number
            if os.isatty(number):
                terminal = os.fstat(number).st_rdev
                if terminal not in found:
                    ours, found[terminal] = os.pipe()
                    self._theirs.append(found[terminal])
                    self._carried.append((ours, number))
                output = found[terminal]
            outputs.append(output)
        return outputs[0], outputs[1]

    def let_go(self) -> None:
        """Of what is the command's alone, once it has it."""
        for each in self._theirs:
            os.close(each)

    def carry(self) -> None:
        """Between the terminal and the command."""
        for source, target in self._carried:
            thread = threading.Thread(target=_carry_all, args=(source, target), daemon=True)
            thread.start()
            if source:
                self._printing.append(thread)

    def finish(self) -> None:
        """The last output of a command that has ended."""
        for thread in self._printing:
            thread.join(_LAST_WORDS_SECONDS)


def _carry_all(source: int, target: int) -> None:
    """Then close the pipe that is one of the two: the command sees that there is no more, or no reader."""
    _carry(source, target)
    os.close(source or target)


def _carry(source: int, target: int) -> None:
    """Until there is no more, or the other side is gone: a terminal then answers with an error."""
    try:
        while data := os.read(source, _BLOCK):
            while data:
                data = data[os.write(target, data) :]
    except OSError:
        return


def _copy_size(terminal: int) -> None:
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))
    except OSError:
        return  # ours has no size


class _Unchanged:
    def __enter__(self) -> None:
        """Our terminal stays as it is."""

    def __exit__(self, *_: object) -> None:
        """There is nothing to give back."""


@dataclass(slots=True)
class _Raw:
    """Our terminal while every key goes to the command."""

    descriptor: int
    _before: list[Any] | None = None

    def __enter__(self) -> None:
        self._before = termios.tcgetattr(self.descriptor)
        tty.setraw(self.descriptor)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self._before)
