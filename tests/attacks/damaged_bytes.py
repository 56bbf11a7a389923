"""Requests whose bytes were damaged on their way: heads, chunks and several requests at once, and clients that leave.

The server may answer or close. It may not fail or grow, and a watch whose client has left ends: when the server stops,
one that is left writes to a connection that is gone, and its log has a traceback.
"""

from __future__ import annotations

import random
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.attacks.tally import Tally
from tests.live.served import Served, serving

CLIENTS = 8
MOST_MEMORY_KB = 400_000
# Long enough for an answer of this server; a watch has none.
ANSWER_SECONDS = 0.3
PIECES = (b"\r\n", b"\n", b"\0", b" ", b":", b"%", b"\xff\xfe", b"content-length: 3\r\n", b"connection: close\r\n")


def whole_requests(served: Served) -> list[bytes]:
    """What is damaged, put together and cut."""
    viewer, admin = (f"host: x\r\nauthorization: Bearer {served.token(user)}\r\n" for user in ("viewer", "admin"))
    pods, one = "/api/v1/namespaces/default/pods", "application/json"
    return [
        text.encode()
        for text in (
            f"GET /api/v1/pods HTTP/1.1\r\n{viewer}\r\n",
            f"GET /api/v1/pods?watch=1 HTTP/1.1\r\n{viewer}\r\n",
            f"GET {pods}/x/log?follow=1 HTTP/1.1\r\n{viewer}\r\n",
            f"POST {pods} HTTP/1.1\r\n{admin}content-type: {one}\r\ncontent-length: 2\r\n\r\n{{}}",
            f"POST {pods}/x/eviction HTTP/1.1\r\n{admin}expect: 100-continue\r\ncontent-length: 2\r\n\r\n{{}}",
            f"PATCH {pods}/x HTTP/1.1\r\n{admin}transfer-encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
            f"GET {pods}/x/exec?command=a HTTP/1.1\r\n{admin}upgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        )
    ]


def damaged(requests: list[bytes], chance: random.Random) -> bytes:
    """One of them, or several at once."""
    data = bytearray(chance.choice(requests))
    for _ in range(chance.choice((0, 1, 1, 2, 5, 20))):
        at = chance.randrange(len(data) + 1)
        way = chance.randrange(4)
        if way == 0:
            data[at : at + 1] = chance.randbytes(1)
        elif way == 1:
            data[at:at] = chance.choice(PIECES)
        elif way == 2:
            del data[at : at + chance.randrange(1, 20)]
        else:
            at = chance.choice((at, len(data)))
            data[at:at] = chance.choice(requests)
    return bytes(data)


def send_damaged_bytes(folder: Path, seed: int, count: int) -> Tally:
    """By eight clients. At the end the server still answers."""
    tally = Tally("damaged bytes", count)
    with serving(folder / "state", "--controllers=") as served:
        requests, chance, trust = whole_requests(served), random.Random(seed), served.trust()
        sent = [damaged(requests, chance) for _ in range(count)]
        with ThreadPoolExecutor(CLIENTS) as clients:
            for told in clients.map(lambda data: _tell(served.port, trust, data), sent):
                tally.seen["answered" if told.startswith(b"HTTP/1.1 ") else "closed"] += 1
                tally.check(b"HTTP/1.1 500" not in told, told[:500].decode(errors="replace"))
        code, _ = served.call("GET", "/api/v1/namespaces")
        tally.check(code == 200, f"the server answers {code}")
        status = Path(f"/proc/{served.process.pid}/status").read_text()
        memory = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
        tally.check(memory < MOST_MEMORY_KB, f"the server took {memory} kB")
    log = (folder / "state.log").read_text()
    tally.check("Traceback" not in log, log[-3000:])
    return tally


def _tell(port: int, trust: ssl.SSLContext, data: bytes) -> bytes:
    """What comes back in a moment. Then the client leaves without a word."""
    with (
        socket.create_connection(("127.0.0.1", port), 60) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        told = b""
        try:
            connection.sendall(data)
            connection.settimeout(ANSWER_SECONDS)
            while more := connection.recv(65536):
                told += more
        except OSError:
            return told
        return told
