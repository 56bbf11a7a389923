"""A list through an index holds what a search of all objects finds, and clients cannot ask for many indexes."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jettison.apiserver.objects.resources import PODS
from jettison.apiserver.storage.indexes import ListIndexes, Lookup
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Stored
from jettison.apiserver.verbs.listing import select

_NAMES = st.sampled_from(["a", "b", "c", "d"])
_NAMESPACES = st.sampled_from(["x", "y"])
_VALUES = st.sampled_from(["", "n1", "n2"])
_WRITES = st.one_of(
    st.tuples(st.just("put"), _NAMESPACES, _NAMES, _VALUES),
    st.tuples(st.just("remove"), _NAMESPACES, _NAMES, st.just("")),
    st.tuples(st.sampled_from(["compact", "reopen", "list"]), st.just(""), st.just(""), st.just("")),
)
_QUERIES = [
    ("", "spec.nodeName=n1"),
    ("", "spec.nodeName="),
    ("", "spec.nodeName!=n1"),
    ("app=n1", ""),
    ("app in (n2)", ""),
    ("app in (n1,n2)", ""),
    ("app==n1", "spec.nodeName=n1,metadata.name=a"),
    ("!app", ""),
]


def _pod(namespace: str, name: str, value: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}"}
    if value:
        return {"metadata": {**metadata, "labels": {"app": value}}, "spec": {"nodeName": value}}
    return {"metadata": metadata, "spec": {}}


async def _carry_out(store: Store, folder: Path, write: tuple[str, str, str, str]) -> Store:
    kind, namespace, name, value = write
    if kind == "put":
        store.put(PODS, namespace, name, _pod(namespace, name, value))
    elif kind == "remove" and store.head(PODS, namespace, name) is not None:
        store.remove(PODS, namespace, name)
    await store.settled()
    if kind == "compact":
        store.compact()
    if kind == "reopen":
        await store.close()
        return Store(folder)
    return store


@settings(max_examples=60)
@given(st.lists(_WRITES, max_size=20))
def test_an_index_finds_what_a_search_of_all_objects_finds(writes: list[tuple[str, str, str, str]]) -> None:
    async def run(folder: Path) -> None:
        store = Store(folder)
        for write in writes:
            store = await _carry_out(store, folder, write)
            for labels, fields in _QUERIES:
                selection = select(PODS, labels, fields)
                for namespace in (None, "x"):
                    everything = [each for each in store.list(PODS, namespace)[0] if selection.takes(each.object)]
                    narrowed, _ = store.list(PODS, namespace, selection.lookup)
                    assert [each for each in narrowed if selection.takes(each.object)] == everything
        await store.close()

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(run(Path(name)))


def test_only_equality_is_looked_up_and_a_field_comes_before_a_label() -> None:
    found = [select(PODS, *query).lookup for query in _QUERIES]
    assert [each and each.name for each in found] == [
        "field spec.nodeName", "field spec.nodeName", None, "label app", "label app", None, "field spec.nodeName", None,
    ]  # fmt: skip


def test_a_client_that_asks_for_many_labels_is_given_few_indexes() -> None:
    """Ten thousand different queries keep eight indexes, and those asked for last are not made anew."""
    stored = [Stored.of("pods", ("x", str(n)), n + 1, _pod("x", str(n), f"v{n}")) for n in range(3)]
    read: list[str] = []

    def look(indexes: ListIndexes, label: str) -> list[tuple[str, str]]:
        def value(pod: Any) -> str:
            read.append(label)
            return str(pod["metadata"]["labels"]["app"])

        return sorted(indexes.keys(Lookup(label, value, "v1"), stored))

    indexes = ListIndexes()
    for number in range(10_000):
        assert look(indexes, f"label-{number}") == [("x", "1")]
    made = len(read)
    for number in range(9_992, 10_000):
        look(indexes, f"label-{number}")
    assert len(read) == made
    indexes.change(stored[0])
    assert len(read) == made + 8


def test_making_an_index_decodes_no_object_for_good() -> None:
    stored = Stored("pods", ("x", "a"), 1, b'{"metadata":{"name":"a"},"spec":{"nodeName":"n1"}}', (), None)
    assert select(PODS, "", "spec.nodeName=n1").lookup is not None
    lookup = Lookup("name", lambda pod: str(pod["spec"]["nodeName"]), "n1")
    assert list(ListIndexes().keys(lookup, [stored])) == [("x", "a")]
    assert stored._object is None
