"""Messages as bytes: what we write others read, what others write is read or refused, never more."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.runtimes.cri.messages import MESSAGES
from jettison.runtimes.grpc import wire
from jettison.runtimes.grpc.wire import Message, WireError

encode, decode = partial(wire.encode, MESSAGES), partial(wire.decode, MESSAGES)

CONTAINERS = {
    # By hand, from the definition of the format: field 1 of length 6, in it field 1 with "ab" and field 6 with 2.
    b"\x0a\x06\x0a\x02ab\x30\x02": {"id": "ab", "state": 2},
    # Fields that the table does not have are skipped: a number, 8 bytes, 4 bytes and a text.
    b"\x0a\x1d\xf8\x01\x07\xf9\x01" + bytes(8) + b"\xfd\x01" + bytes(4) + b"\xfa\x01\x01z\x0a\x02ab\x30\x02": {
        "id": "ab"
    },
}


@pytest.mark.parametrize(("data", "wanted"), CONTAINERS.items())
def test_an_answer_is_read(data: bytes, wanted: Message) -> None:
    (found,) = decode("ListContainersResponse", data)["containers"]
    assert found.items() >= wanted.items()


def test_a_request_is_written_as_the_format_wants_it() -> None:
    """Zeros are left out, an empty message is not, and a negative number takes ten bytes."""
    assert encode("StopContainerRequest", {"container_id": "", "timeout": 0}) == b""
    assert (
        encode("StopContainerRequest", {"container_id": "a", "timeout": -1}) == b"\x0a\x01a\x10" + b"\xff" * 9 + b"\x01"
    )
    assert encode("LinuxContainerSecurityContext", {"run_as_user": {"value": 0}}) == b"\x2a\x00"
    assert (
        encode("ListPodSandboxRequest", {"filter": {"label_selector": {"a": "b"}}})
        == b"\x0a\x08\x1a\x06\x0a\x01a\x12\x01b"
    )


def test_numbers_may_be_packed() -> None:
    context = decode("LinuxContainerSecurityContext", b"\x42\x03\x01\xac\x02\x40\x05")
    assert context["supplemental_groups"] == [1, 300, 5]


def values(name: str) -> st.SearchStrategy[Message]:
    kinds: dict[str, Any] = {
        "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "bytes": st.binary(max_size=8),
        "bool": st.booleans(),
        "int": st.integers(-(2**63), 2**63 - 1),
    }
    kinds["map"] = st.dictionaries(kinds["string"], kinds["string"], max_size=3)

    def one(kind: str) -> st.SearchStrategy[Any]:
        return kinds[kind] if kind in kinds else st.deferred(lambda: values(kind))

    return st.fixed_dictionaries(
        {
            each.name: st.lists(one(each.kind), max_size=3) if each.is_repeated else one(each.kind)
            for each in MESSAGES[name]
        }
    )


@given(values("CreateContainerRequest"))
def test_what_is_written_reads_back(message: Message) -> None:
    assert decode("CreateContainerRequest", encode("CreateContainerRequest", message)) == message


@given(st.sampled_from(sorted(MESSAGES)), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(name: str, data: bytes) -> None:
    """And no text of an answer is one that cannot be printed."""
    try:
        found = decode(name, data)
    except WireError:
        return
    assert "\\ud" not in ascii(found)


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\x0a" + b"\xff" * 11, b"\x08\x01", b"\x0b", b"\x0a\xff\xff\xff\xff\x7f"],
    ids=["cut off", "too short", "endless number", "number for a text", "group", "gigabytes"],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode("CreateContainerResponse", data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("ListContainersResponse", b"\x0a\0" * 2**20),
        ("ListContainersResponse", b"\x0a\x84\x80\x40" + b"\x42\0" * 2**19 + b"\x42\2\x0a\0"),
        ("LinuxContainerSecurityContext", b"\x42\x80\x80\x40" + b"\1" * 2**20),
    ],
    ids=["messages", "labels", "numbers"],
)
def test_a_million_fields_are_not_decoded(name: str, data: bytes) -> None:
    """16 MiB of them would be gigabytes, and seconds without a look at the node."""
    with pytest.raises(WireError, match="more than 100000 fields"):
        decode(name, data)
