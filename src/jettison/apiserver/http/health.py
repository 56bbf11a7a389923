"""Health and metrics. Health has Kubernetes' paths and texts: `ok`, or every check with a plus or a minus.

`/livez` and `/healthz` only ask whether the server answers: a restart would help neither against a full disk nor
against a damaged store. `/readyz` fails while the disk is full. Objects that are damaged and set aside do not make it
fail, because all others are served: an outage of everything would be worse than one damaged object. It lists them as
a failed check, `/readyz/store-rows` alone answers 500, and `/metrics` counts them, so that an alert can be set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from jettison.agent.http.exposition import CONTENT_TYPE, Family, Sample, exposition
from jettison.apiserver.http.forms import PLAIN
from jettison.apiserver.http.presenting import Response
from jettison.apiserver.storage.store import Store
from jettison.engine.numbers.strconv import quote

METRICS_PATH: Final = "/metrics"


class _Check(NamedTuple):
    # Why it fails, or nothing.
    complaint: Callable[[Store], str]
    # Whether a server that fails it should get no requests.
    is_grave: bool = True


def _room(store: Store) -> str:
    store.reserve.look()
    return store.reserve.complaint


def _rows(store: Store) -> str:
    count = len(store.set_aside)
    return f"{count} objects are damaged and set aside, the log of the server names them" if count else ""


_ALIVE: Final[Mapping[str, _Check]] = {"ping": _Check(lambda _: "")}
_READY: Final = {
    **_ALIVE,
    "store-disk": _Check(lambda store: store.failure),
    "store-space": _Check(_room),
    "store-rows": _Check(_rows, is_grave=False),
}
_CHECKS: Final = {"healthz": _ALIVE, "livez": _ALIVE, "readyz": _READY}


def paths() -> Iterator[str]:
    """Every path that is answered here."""
    yield METRICS_PATH
    for kind, checks in _CHECKS.items():
        yield f"/{kind}"
        yield from (f"/{kind}/{name}" for name in checks)


def is_health(path: str) -> bool:
    """Whether there is such a check, or such a set of them, or it is the path of the metrics."""
    if path == METRICS_PATH:
        return True
    kind, _, name = path.strip("/").partition("/")
    return path.startswith("/") and kind in _CHECKS and (not name or name in _CHECKS[kind])


def answer(path: str, store: Store, *, is_verbose: bool, excluded: Collection[str] = ()) -> Response:
    """The verdict of all checks together but those that are excluded, or of the one that the path names; or the
    metrics.
    """
    if path == METRICS_PATH:
        return Response(200, exposition(_families(store)).encode(), CONTENT_TYPE)
    kind, _, name = path.strip("/").partition("/")
    checks = {name: _CHECKS[kind][name]} if name else _CHECKS[kind]
    skipped = set() if name else checks.keys() & set(excluded)
    found = {each: check.complaint(store) for each, check in checks.items() if each not in skipped}
    is_failed = any(why for each, why in found.items() if checks[each].is_grave or name)
    if not any(found.values()) and not is_verbose:
        return Response(200, b"ok", PLAIN)
    lines = [f"[+]{each} excluded: ok" if each in skipped else _line(each, found[each]) for each in checks]
    if not name and (unknown := sorted({*excluded} - checks.keys())):
        quoted = ",".join(map(quote, unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    lines.append(f"{kind} check {'failed' if is_failed else 'passed'}")
    return Response(500 if is_failed else 200, "".join(f"{line}\n" for line in lines).encode(), PLAIN)


def _line(name: str, why: str) -> str:
    return f"[-]{name} failed: {why}" if why else f"[+]{name} ok"


def _families(store: Store) -> Iterator[Family]:
    def objects() -> Iterator[Sample]:
        for storage, count in sorted(store.counts().items()):
            yield "apiserver_storage_objects", (("resource", storage),), count

    def set_aside() -> Iterator[Sample]:
        yield "jettison_store_objects_set_aside", (), len(store.set_aside)

    def is_full() -> Iterator[Sample]:
        yield "jettison_store_disk_full", (), not store.reserve.look()

    yield Family("apiserver_storage_objects", "gauge", "Number of stored objects by resource.", objects)
    meaning = "Number of objects that are damaged and not served."
    yield Family("jettison_store_objects_set_aside", "gauge", meaning, set_aside)
    yield Family("jettison_store_disk_full", "gauge", "1 while only deletions and evictions are accepted.", is_full)
