"""Work for a client that goes away while nothing is read from it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from jettison.apiserver.connections.hangups import until_hung_up


@pytest.mark.parametrize("is_reset", [False, True])
def test_the_end_of_a_client_that_is_not_read_from_is_noticed(is_reset: bool) -> None:
    """What it has sent lies in the kernel, before its end."""

    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        if is_reset:
            with socket.create_server(("127.0.0.1", 0)) as server:
                ours.close()
                theirs.close()
                theirs = socket.create_connection(server.getsockname())
                ours, _ = server.accept()
                theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes((1, 0, 0, 0, 0, 0, 0, 0)))
        with ours:
            theirs.sendall(b"unread")
            working = asyncio.create_task(until_hung_up(asyncio.Event().wait, ours, last_seconds=0))
            await asyncio.sleep(0.01)
            assert not working.done()
            theirs.close()
            await asyncio.wait_for(working, 60)
        # A connection that is closed here as well.
        await asyncio.wait_for(until_hung_up(asyncio.Event().wait, ours), 60)

    asyncio.run(scenario())


def test_work_that_ends_is_not_waited_for() -> None:
    """And what it raises is raised."""

    async def fail() -> None:
        raise ValueError("of the work")

    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            await until_hung_up(lambda: asyncio.sleep(0), ours)
            with pytest.raises(ValueError, match="of the work"):
                await until_hung_up(fail, ours)

    asyncio.run(asyncio.wait_for(scenario(), 60))
