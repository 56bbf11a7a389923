"""A process that stays for months does not load what it never uses.

OpenSSL is 5 MB of memory, a sixth of an agent. asyncio and hashlib load it where it is there, and do without where it
is not: the agent serves no TLS, and Python has its own SHA-256. HTTPS probes load it later, by themselves.
"""

from __future__ import annotations

import sys
from importlib import import_module

_OPENSSL = ("ssl", "_hashlib")
_USERS = ("asyncio", "hashlib")


def load_without_openssl() -> None:
    """For the whole process and for good, so only for one that is a node's agent and nothing else."""
    hidden = [name for name in _OPENSSL if name not in sys.modules]
    for name in hidden:
        # How Python spells "there is no such module".
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        for name in _USERS:
            import_module(name)
    finally:
        for name in hidden:
            del sys.modules[name]
