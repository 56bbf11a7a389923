"""Which objects stay decoded."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.apiserver.storage.stored import DecodedObjects, Stored


def value(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeName": "n1"}}


def made(name: str) -> Stored:
    return Stored.of("pods", ("default", name), 7, value(name))


@pytest.fixture
def pods() -> list[Stored]:
    return [made(f"pod-{number}") for number in range(3)]


def test_the_first_are_forgotten_when_there_are_too_many(pods: list[Stored]) -> None:
    before = [each.object for each in pods]
    values = DecodedObjects(2 * pods[0].size)
    for each in pods:
        values.add(each)
    assert pods[0].object == before[0]
    assert pods[0].object is not before[0]
    assert [each.object is old for each, old in zip(pods, before, strict=True)] == [False, True, True]


def test_one_that_is_discarded_makes_room(pods: list[Stored]) -> None:
    before = [each.object for each in pods]
    values = DecodedObjects(2 * pods[0].size)
    for each in pods[:2]:
        values.add(each)
    assert not values.has_room(pods[2].size)
    values.discard(pods[0])
    values.discard(pods[0])
    assert values.has_room(pods[2].size)
    assert not values.has_room(pods[2].size + 1)
    values.add(pods[2])
    assert [each.object is old for each, old in zip(pods, before, strict=True)] == [True, True, True]


def test_a_superseded_version_is_decoded_for_each_look(pods: list[Stored]) -> None:
    first = pods[0].object
    pods[0].release()
    assert pods[0].object == pods[0].passing_object() == pods[0].listed_object() == first
    assert pods[0].object is not pods[0].object


def test_a_value_that_is_asked_for_again_is_kept(pods: list[Stored]) -> None:
    body = pods[0].body
    read = Stored.read("pods", pods[0].key, 7, body)
    assert read.passing_object() is not read.passing_object()
    assert read.listed_object() is read.object
    assert read.passing_object() is read.object
    assert read.body == body


def test_bytes_that_are_made_late_are_those_of_the_value() -> None:
    late = Stored.unencoded("pods", ("default", "pod-0"), 7, value("pod-0"), tuple)
    assert late.body == made("pod-0").body
    late.release()
    assert late.object == made("pod-0").object


def test_all_are_forgotten(pods: list[Stored]) -> None:
    before = [each.object for each in pods]
    values = DecodedObjects(3 * pods[0].size)
    for each in pods:
        values.add(each)
    values.clear()
    assert values.has_room(3 * pods[0].size)
    assert [each.object for each in pods] == before
    assert [each.object is old for each, old in zip(pods, before, strict=True)] == [False, False, False]
