"""Is the server well? Kubernetes' paths and texts: `ok`, or every check with a plus or a minus.

`/livez` and `/healthz` only ask whether it answers: to start it again would help neither against a full disk nor
against a damaged store. `/readyz` fails while the disk is full. That objects are damaged and set aside it tells without
failing, for all others are served as ever; `/readyz/store-rows`, that check alone, fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from jettison.apiserver.http.forms import PLAIN
from jettison.apiserver.http.presenting import Response
from jettison.apiserver.storage.store import Store


class _Check(NamedTuple):
    # Why it fails, or nothing.
    complaint: Callable[[Store], str]
    # Whether a server that fails it should get no requests.
    is_grave: bool = True


def _room(store: Store) -> str:
    store.room.look()
    return store.room.complaint


def _rows(store: Store) -> str:
    count = len(store.set_aside)
    return f"{count} objects are damaged and set aside, the log of the server names them" if count else ""


_ALIVE: Final[Mapping[str, _Check]] = {"ping": _Check(lambda _: "")}
_READY: Final = {**_ALIVE, "store-space": _Check(_room), "store-rows": _Check(_rows, is_grave=False)}
_CHECKS: Final = {"healthz": _ALIVE, "livez": _ALIVE, "readyz": _READY}


def is_health(path: str) -> bool:
    """Whether there is such a check, or such a set of them."""
    kind, _, name = path.strip("/").partition("/")
    return path.startswith("/") and kind in _CHECKS and (not name or name in _CHECKS[kind])


def answer(path: str, store: Store, *, is_verbose: bool) -> Response:
    """The verdict of all checks together, or of the one that the path names."""
    kind, _, name = path.strip("/").partition("/")
    checks = {name: _CHECKS[kind][name]} if name else _CHECKS[kind]
    found = {each: check.complaint(store) for each, check in checks.items()}
    is_failed = any(found[each] for each, check in checks.items() if check.is_grave or name)
    if not any(found.values()) and not is_verbose:
        return Response(200, b"ok", PLAIN)
    lines = [f"[-]{each} failed: {why}" if why else f"[+]{each} ok" for each, why in found.items()]
    lines.append(f"{kind} check {'failed' if is_failed else 'passed'}")
    return Response(500 if is_failed else 200, "".join(f"{line}\n" for line in lines).encode(), PLAIN)
