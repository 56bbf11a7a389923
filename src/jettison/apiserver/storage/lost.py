"""Which objects a damaged log has lost: an older state of one must not be served in the place of its newest."""

from __future__ import annotations

from typing import Final

import msgspec

from jettison.apiserver.objects.resources import RESOURCES
from jettison.apiserver.storage.indexes import Key
from jettison.apiserver.storage.log import Content, shown_text

_STORAGES: Final = tuple(dict.fromkeys(each.storage for each in RESOURCES if each.is_stored))


class _Identity(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Identified(msgspec.Struct):
    metadata: _Identity


_identified = msgspec.json.Decoder(_Identified)


def lost_objects(content: Content) -> set[tuple[str, Key]]:
    """The objects whose newest state is damaged: older states of them must not be served in their place.

    The key of a damaged row may be what is wrong with it. Its uid is in the body and belongs to one object only, so
    that is asked first; the key counts where the body tells no uid that is known.
    """
    newest = {(row.storage, (row.namespace, row.name)): row for row in content.rows}
    uids = {uid: each for each, row in newest.items() if (uid := _identity(row.body).uid)}
    lost: set[tuple[str, Key]] = set()
    for damaged in content.damaged:
        version, storage, namespace, name, _, body, _ = damaged.columns
        found = _identity(body)
        keys = [(shown_text(namespace), shown_text(name))]
        if found.name:
            keys.append((found.namespace, found.name))
        # An unknown resource is the damaged name of a known one, and may be any of them.
        storages = [told] if (told := shown_text(storage)) in _STORAGES else [told, *_STORAGES]
        if found.uid in uids:
            candidates = [uids[found.uid]]
        elif len(storages) == 1:
            candidates = [(told, key) for key in keys]
        else:
            candidates = [(each, key) for key in keys for each in storages if (each, key) not in newest]
        lost.update(each for each in candidates if each not in newest or newest[each].version < version)
    return lost


def _identity(body: object) -> _Identity:
    """Which object a body is of; nothing where it does not tell."""
    try:
        return _identified.decode(body).metadata if isinstance(body, bytes) else _Identity()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Identity()
