"""A registry of images on the loopback, for one image: what a container runtime asks for, and how often."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.live.containerd import image_parts

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


class Registry:
    """Serves `box:1` over plain http, which runtimes allow for the loopback; any other name is unknown to it."""

    def __init__(self, command: Sequence[str]) -> None:
        config, layers = image_parts(command)
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _described(_CONFIG, config),
            "layers": [_described(_LAYER, layer) for layer in layers.values()],
        }
        described = json.dumps(manifest).encode()
        self._answers = {f"/v2/box/blobs/{_digest(each)}": (each, "") for each in (config, *layers.values())}
        self._answers |= {f"/v2/box/manifests/{name}": (described, _MANIFEST) for name in ("1", _digest(described))}
        self._asked: Counter[str] = Counter()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def resolved(self) -> int:
        """How often it was asked which image the name means."""
        return self._asked["/v2/box/manifests/1"]

    @property
    def sent_layers(self) -> int:
        """How many blobs were fetched: the configuration and the layers."""
        return sum(count for path, count in self._asked.items() if "/blobs/" in path)

    @contextmanager
    def serving(self) -> Iterator[Registry]:
        """In a thread."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answers, asked = self._answers, self._asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(has_body=True)

            def do_HEAD(self) -> None:
                self._answer(has_body=False)

            def _answer(self, *, has_body: bool) -> None:
                asked[self.path] += 1
                body, media_type = answers.get(self.path, (b"", ""))
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", media_type or "application/octet-stream")
                self.send_header("Content-Length", str(len(body)))
                if media_type:
                    self.send_header("Docker-Content-Digest", _digest(body))
                self.end_headers()
                if has_body:
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Into no test's output."""

        return Handler


def _described(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "size": len(data), "digest": _digest(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
