"""YAML as Kubernetes reads it, from anybody.

A file may be hostile: libyaml's composer crashes the process when 200,000 brackets are nested, and a few aliases of
aliases stand for billions of values. So it is looked through event by event, which needs no stack and no memory, before
anything is built from it.
"""

from __future__ import annotations

import sys

import yaml

from jettison.errors import ManifestError

DEEPEST = 32
MOST_ALIASES = 100
# A node full of pods has 20,000; a mebibyte of commas would have a million, and ten seconds of looking through.
MOST_EVENTS = 200_000

_TEXT = "tag:yaml.org,2002:str"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class PlainLoader(yaml.CSafeLoader):
    """Plain YAML as Kubernetes reads it: what looks like a date is a string."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _text(loader: PlainLoader, node: yaml.ScalarNode) -> str:
    """One copy of each: the keys of a hundred manifests are the same thirty words."""
    return sys.intern(str(loader.construct_scalar(node)))


PlainLoader.add_constructor(_TEXT, _text)
# A date that says so with a tag as well: PyYAML's own constructor crashes on what is none.
PlainLoader.add_constructor(_TIMESTAMP, _text)


def look_through(text: str, name: str) -> None:
    """Refuse what would crash or exhaust whoever builds values from it."""
    depth = aliases = 0
    anchored_at: int | None = None
    for count, event in enumerate(yaml.parse(text, Loader=PlainLoader)):
        line = event.start_mark.line + 1
        if count > MOST_EVENTS:
            raise ManifestError(f"{name}:{line}: more than {MOST_EVENTS} values, brackets and keys")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise ManifestError(f"{name}:{line}: nested more than {DEEPEST} levels deep")
            if event.anchor is not None and anchored_at is None:
                anchored_at = depth
        elif isinstance(event, yaml.CollectionEndEvent):
            if anchored_at == depth:
                anchored_at = None
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
            if anchored_at is not None:
                raise ManifestError(f"{name}:{line}: alias `*{event.anchor}` stands inside an anchored value")
            if aliases > MOST_ALIASES:
                raise ManifestError(f"{name}:{line}: more than {MOST_ALIASES} aliases")
