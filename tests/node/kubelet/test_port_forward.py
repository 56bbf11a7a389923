"""Ports of a pod for a hostile client: numbers of streams that repeat, and frames that are never read."""

from __future__ import annotations

import asyncio
import socket

import pytest

from jettison.errors import StartError
from jettison.node.kubelet import spdy
from jettison.node.kubelet.port_forward import PortForward
from tests.node.kubelet.test_channels import connected


async def _no_pod(_port: int) -> socket.socket:
    raise StartError("no pod listens")


def test_a_number_that_is_taken_makes_no_second_pair() -> None:
    """Streams are counted by their numbers: 333,000 pairs of one number took 440 MB."""

    async def scenario() -> None:
        async with connected() as (ours, reader, writer):
            before = asyncio.all_tasks()
            running = asyncio.create_task(PortForward(ours, _no_pod).run())
            frames, answers = spdy.SpdyWriter(), spdy.SpdyReader()
            for number in range(1000):
                writer.write(frames.open(1, {"streamtype": "error", "port": "1", "requestid": str(number)}))
            events: list[spdy.Event] = []
            while len(events) < 1000:
                events += answers.read(await reader.read(4096))
            assert events == [spdy.Accepted(1), *(spdy.Reset(1) for _ in range(999))]
            # The client itself, and the one stream that waits for its second.
            assert len(asyncio.all_tasks() - before) == 2
            writer.close()
            await running

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_frame_that_is_sent_leaves_the_loop_a_turn() -> None:
    """A flood of pings is answered frame by frame, and others go on in between."""

    async def scenario() -> None:
        async with connected() as (ours, _reader, _writer):
            turns: list[int] = []
            for number in range(3):
                asyncio.get_running_loop().call_soon(turns.append, number)
                await ours.write(b"pong")
                assert turns[-1:] == [number]

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_client_that_does_not_read_is_dropped_for_all_that_wait() -> None:
    """One after the other would wait as long again: 128 connections of a client for 21 hours."""

    async def scenario() -> None:
        async with connected(stall_seconds=0.2) as (ours, _reader, _writer):
            waiting = [asyncio.create_task(ours.write(bytes(8 * 1024 * 1024))) for _ in range(3)]
            with pytest.raises(TimeoutError):
                await waiting[0]
            for each in waiting[1:]:
                with pytest.raises(ConnectionResetError):
                    await each
            assert await ours.read() == b""

    asyncio.run(asyncio.wait_for(scenario(), 60))
