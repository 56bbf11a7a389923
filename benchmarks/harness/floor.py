"""The baseline of the API's benchmark: the least that a durable server over TLS does, with the same parts.

Starlette on uvicorn, as most people write it. A POST is one row in SQLite and one commit that waits for the disk; a
list is bytes that are ready; a watch is bytes that are ready too, line by line. No object is checked, no budget asked,
no request authenticated, and no client notified.
"""

from __future__ import annotations

import asyncio
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from benchmarks.harness.load import Server
from jettison.apiserver.access.certificates import ensure_identity
from jettison.apiserver.connections.endpoint import Endpoint
from jettison.apiserver.connections.server import listen


def application(folder: Path) -> Starlette:
    """Three routes."""
    store = sqlite3.connect(folder / "floor.sqlite", isolation_level=None)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("PRAGMA synchronous = FULL")
    store.execute("CREATE TABLE rows (name TEXT PRIMARY KEY, body BLOB)")

    async def write(request: Request) -> Response:
        document = await request.json()
        store.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (document["metadata"]["name"], await request.body()))
        return JSONResponse({"kind": "Status", "status": "Success", "code": 201}, 201)

    async def read(request: Request) -> Response:
        return Response(bytes(int(request.path_params["size"])), media_type="application/json")

    async def watch(request: Request) -> Response:
        line = b"x" * int(request.path_params["size"]) + b"}\n"

        async def lines() -> AsyncIterator[bytes]:
            yield b"\n"
            # All clients are connected before the first line, as in our own run.
            await asyncio.sleep(0.5)
            for _ in range(int(request.path_params["count"])):
                yield line

        return StreamingResponse(lines())

    return Starlette(
        routes=[
            Route("/write", write, methods=["POST"]),
            Route("/list/{size}", read),
            Route("/watch/{size}/{count}", watch),
        ]
    )


@contextmanager
def standing(folder: Path) -> Iterator[Server]:
    """In a process of its own."""
    command = [sys.executable, "-m", __name__, str(folder)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield Server(port, ssl.create_default_context(cafile=folder / "pki" / "ca.crt"))
        finally:
            process.kill()


def main(folder: Path) -> None:
    """Say which port it is, then serve until killed."""
    identity = ensure_identity(folder / "pki")
    listener, endpoint = listen(Endpoint("127.0.0.1", 0))
    print(endpoint.port, flush=True)
    config = uvicorn.Config(
        application(folder), ssl_certfile=identity.chain, access_log=False, log_level="error", ws="none"
    )
    asyncio.run(uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
