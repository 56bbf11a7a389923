"""The process that stays: what it leaves out, and how it gets its orders. In processes of their own, for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jettison.cli.orders import Orders, decode_orders, encode_orders
from jettison.engine.taints import Taint
from jettison.runtimes.host.settings import HostSettings
from tests.cli.running import process

LEAN = """
import sys
from jettison.cli.resident import load_lean
load_lean()
import jettison.cli.guard, asyncio, hashlib
print(*sorted({"ssl", "_ssl", "_hashlib", "typing_extensions", "click"} & sys.modules.keys()))
asyncio.run(asyncio.sleep(0))
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c44298fc1c14")
import ssl
ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""


def test_an_agent_with_everything_loaded_has_neither_openssl_nor_click() -> None:
    """And OpenSSL can still be had by whoever needs it."""
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "\n"


@pytest.mark.parametrize(("arguments", "code"), [(("--help",), 0), (("--no-such",), 2), (("--node-memory", "x"), 2)])
def test_without_orders_the_childs_words_are_the_last(arguments: tuple[str, ...], code: int) -> None:
    done = process("up", *arguments)
    assert done.returncode == code
    assert (done.stdout if code == 0 else done.stderr).startswith("Usage: " if code == 0 else "error: ")


def test_orders_arrive_as_they_were_given() -> None:
    settings = HostSettings("n1", Path("/state"), Path("/node"), "own/place", 2**29, 300, uses_cgroups=False)
    orders = Orders(
        settings,
        {"kubeletConfiguration": {"evictionHard": {"memory.available": "5%"}}},
        [Path("/pods")],
        [],
        {"disk": "ssd"},
        [Taint("only", "", "NoSchedule")],
        readmits=True,
        is_dry_run=False,
        listen=("::1", 80),
        is_verbose=True,
    )
    assert decode_orders(encode_orders(orders)) == orders
