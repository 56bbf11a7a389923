"""What a client of a container talks to, and what it costs the others."""

from __future__ import annotations

import asyncio
import os
import tty
from pathlib import Path

import pytest

from jettison.node.kubelet.channels import STDOUT
from jettison.node.kubelet.inside import TerminalInside


def test_a_terminal_whose_process_makes_it_block_holds_up_its_own_client_only(tmp_path: Path) -> None:
    """The process has the master as well, and decides whether writing to it waits."""

    async def scenario() -> None:
        master, own = os.openpty()
        tty.setraw(own)
        inside = TerminalInside(master, os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT), has_input=True)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await inside.write(b"x" * 1_000_000)
        os.write(own, b"said")
        output = inside.output()
        assert await anext(output) == (STDOUT, b"said")
        assert (tmp_path / "log").read_bytes() == b"said"
        await output.aclose()
        os.close(own)
        await inside.close()

    asyncio.run(scenario())
