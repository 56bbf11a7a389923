"""Random requests by five identities: spoiled documents, noise, odd paths, every verb.

Only well-formed answers may come out: no internal error, no traceback in the log, no growth, and no write by an
identity that may only read.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.attacks.tally import Tally
from tests.hostile import WRONG, places, with_value
from tests.live.hostile_requests import ACCEPTS, DOCUMENTS, NASTY_TEXTS, NOISE, POD, QUERIES, SEGMENTS, TYPES
from tests.live.raw_http import Answer, RawClient
from tests.live.served import Served, serving

Pairs = list[tuple[bytes, bytes]]

# An administrator's requests get furthest, so there are more of them.
USERS = ("admin", "admin", "admin", "viewer", "evictor", "system:node:n1", "")
USUAL = (b"GET", b"POST", b"PUT", b"PATCH", b"DELETE")
METHODS = (*USUAL, *USUAL, *USUAL, b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"PROPFIND")
PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
SUBRESOURCES = (
    "status",
    "eviction",
    "binding",
    "scale",
    "log",
    "ephemeralcontainers",
    "exec",
    "resize",
    "proxy/x",
    "nonsense",
)
MOST_MEMORY_KB = 400_000
SENT_AT_ONCE = 16 * 1024


class Requests:
    """Draws one request after another from a seed."""

    def __init__(self, served: Served, seed: int) -> None:
        self._random = random.Random(seed)
        self._tokens = {user: served.token(user).encode() for user in USERS if user}

    def draw(self) -> tuple[str, bytes, bytes, Pairs, bytes]:
        """User, method, target, headers and body."""
        pick = self._random.choice
        user, method = pick(USERS), pick(METHODS)
        headers: Pairs = [(b"accept", pick(ACCEPTS))]
        if user:
            headers.append((b"authorization", b"Bearer " + self._tokens[user]))
        target, document = pick(sorted(DOCUMENTS.items()))
        body = self._body(document)
        kind = f"application/{pick(PATCHES)}" if method == b"PATCH" else pick(["application/json"] * 8 + TYPES)
        headers.append((b"content-type", kind.encode()))
        if self._random.random() < 0.1:
            headers.append(
                (pick([b"impersonate-user", b"impersonate-group", b"x-forwarded-for"]), pick([b"admin", b""]))
            )
        return user, method, self._target(target, method), headers, body

    def _target(self, target: str, method: bytes) -> bytes:
        pick = self._random.choice
        if self._random.random() < 0.15:
            odd = pick([b"*", b"", b"//", b"http://elsewhere/api", b"/?", b"/api/v1/namespaces/default/pods"])
            parts = [pick(SEGMENTS) for _ in range(self._random.randrange(7))]
            return pick([odd, b"/" + b"/".join(parts)]) + pick(QUERIES)
        path = target
        if method != b"POST" and self._random.random() < 0.7:
            path += "/" + pick(
                ["victim", "x", *(text for text in NASTY_TEXTS if text.isascii() and text.isprintable())]
            )
            if self._random.random() < 0.4:
                path += "/" + pick(SUBRESOURCES)
        return path.replace(" ", "%20").encode() + (pick(QUERIES) if self._random.random() < 0.3 else b"")

    def _body(self, document: Any) -> bytes:
        if self._random.random() < 0.2:
            return self._random.choice([*NOISE, self._random.randbytes(200)])
        for _ in range(self._random.randint(0, 2)):
            place = self._random.choice(list(places(document)))
            document = with_value(document, place, self._random.choice([*WRONG, *NASTY_TEXTS]))
        return json.dumps(document).encode("utf-8", "surrogatepass")


def send_random_requests(folder: Path, seed: int, count: int) -> Tally:
    """In one connection as far as the server keeps it; a viewer, a stranger and a node change nothing of others."""
    tally = Tally("requests", count)
    with serving(folder / "state", "--controllers=", "--node", "n1") as served:
        victim = {"metadata": {"name": "victim", "labels": {"a": "b"}}, "spec": {**POD["spec"], "nodeName": "n2"}}
        assert served.call("POST", "/api/v1/namespaces/kube-system/pods", victim)[0] == 201
        client = RawClient(served)
        requests = Requests(served, seed)
        for _ in range(count):
            user, method, target, headers, body = requests.draw()
            said = f"{method!r} {target!r} as {user or 'a stranger'} with {body[:200]!r}"
            try:
                answer = client.request(method, target, headers, body)
            except OSError as error:
                # What is no HTTP is answered and closed at once, and a client that is still sending may not see it.
                tally.seen["closed while sending"] += 1
                tally.check(len(body) > SENT_AT_ONCE, f"{said}, {len(body)} bytes: {error}")
                client.close()
                continue
            tally.seen[f"{answer.code // 100}xx"] += 1
            _check(tally, user, method, target, answer, said)
        tally.check(client.request(b"GET", b"/healthz").body == b"ok", "the server is not healthy any more")
        tally.check(served.call("GET", "/api/v1/namespaces/kube-system/pods/victim")[0] == 200, "the victim is gone")
        status = Path(f"/proc/{served.process.pid}/status").read_text()
        memory = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
        tally.check(memory < MOST_MEMORY_KB, f"the server took {memory} kB")
        client.close()
    log = (folder / "state.log").read_text()
    tally.check("Traceback" not in log, log[-3000:])
    return tally


def _check(tally: Tally, user: str, method: bytes, target: bytes, answer: Answer, said: str) -> None:
    tally.check(answer.code < 500 or answer.code in (500, 501, 503, 504, 505), f"{said}: {answer.code}")
    is_json = answer.headers.get(b"content-type") == b"application/json"
    if answer.code >= 400 and is_json and method != b"HEAD":
        status = json.loads(answer.body)
        is_status = status.get("kind") == "Status" and status.get("code") == answer.code and status.get("message")
        tally.check(is_status, f"{said}: {answer}")
        tally.check(status.get("reason") != "InternalError", f"{said}: {answer}")
    is_write = method in (b"POST", b"PUT", b"PATCH", b"DELETE")
    if is_write and user in ("viewer", "") and b"selfsubject" not in target:
        tally.check(answer.code >= 400, f"{said}: {answer.code}")
