"""What an agent's process leaves out, in a process of its own: what is loaded once cannot be unloaded."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from jettison.cli.lean_start import load_without_openssl
load_without_openssl()
assert not {"ssl", "_ssl", "_hashlib"} & sys.modules.keys()
import asyncio, hashlib
asyncio.run(asyncio.sleep(0))
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c44298fc1c14")
import ssl
ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""

UP = """
import sys
sys.argv = ["jettison", "up", "--help"]
from jettison.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
assert "asyncio" in sys.modules
print(sorted({"ssl", "_ssl", "_hashlib"} & sys.modules.keys()))
"""


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_asyncio_and_hashes_do_without_openssl_and_it_can_still_be_loaded() -> None:
    run(PROGRAM)


def test_an_agent_with_everything_loaded_has_no_openssl() -> None:
    """Nothing that `up` imports brings it back."""
    assert run(UP).splitlines()[-1] == "[]"
