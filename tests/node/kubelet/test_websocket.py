"""Frames of WebSocket: read in pieces of any size, and refused where they are too much."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.errors import StreamError
from jettison.node.kubelet import websocket
from jettison.node.kubelet.websocket import Closed, MessagePiece, WebSocketPing, WebSocketReader

MASK = b"\x01\x02\x03\x04"


def client_frame(kind: int, data: bytes, *, is_final: bool = True) -> bytes:
    """As a client sends it."""
    head, size = kind | 0x80 * is_final, len(data)
    if size < 126:
        length = struct.pack(">BB", head, 0x80 | size)
    elif size < 65536:
        length = struct.pack(">BBH", head, 0x80 | 126, size)
    else:
        length = struct.pack(">BBQ", head, 0x80 | 127, size)
    return length + MASK + bytes(byte ^ MASK[place % 4] for place, byte in enumerate(data))


def test_the_key_of_the_rfc() -> None:
    assert websocket.accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.lists(st.integers(1, 90), max_size=30))
def test_messages_are_read_as_they_were_written(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(client_frame(2, each) + client_frame(9, b"p") for each in messages)
    reader, found, pings = WebSocketReader(), list[bytes](), 0
    for size in (*cuts, len(data)):
        for event in reader.read(data[:size]):
            if isinstance(event, MessagePiece):
                if event.is_first:
                    found.append(b"")
                found[-1] += event.data
            else:
                assert event == WebSocketPing(b"p")
                pings += 1
        data = data[size:]
    assert (found, pings) == (messages, len(messages))


def test_a_message_in_several_frames_with_a_ping_between_them() -> None:
    data = client_frame(2, b"ab", is_final=False) + client_frame(9, b"") + client_frame(0, b"cd") + client_frame(8, b"")
    assert list(WebSocketReader().read(data)) == [
        MessagePiece(b"ab", True),
        WebSocketPing(b""),
        MessagePiece(b"cd", False),
        Closed(),
    ]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        pytest.param(struct.pack(">BBQ", 0x82, 0x80 | 127, 2**40) + MASK, 1009, id="a claimed terabyte"),
        pytest.param(struct.pack(">BBQ", 0x82, 0x80 | 127, 2**63) + MASK, 1009, id="more than there is"),
        pytest.param(struct.pack(">BB", 0x82, 1) + b"x", 1002, id="no mask"),
        pytest.param(struct.pack(">BB", 0xC2, 0x80) + MASK, 1002, id="compressed"),
        pytest.param(struct.pack(">BB", 0x80, 0x80) + MASK, 1002, id="a continuation of nothing"),
        pytest.param(struct.pack(">BB", 0x83, 0x80) + MASK, 1002, id="an unknown kind"),
        pytest.param(client_frame(9, b"x" * 126), 1002, id="a ping of 126 bytes"),
        pytest.param(client_frame(2, b"", is_final=False) + client_frame(2, b""), 1002, id="two at once"),
    ],
)
def test_what_is_no_frame_or_too_much_is_refused(frame: bytes, code: int) -> None:
    with pytest.raises(StreamError) as caught:
        list(WebSocketReader().read(frame))
    assert caught.value.code == code


def test_frames_of_one_message_count_together() -> None:
    reader = WebSocketReader()
    half = websocket.MOST_MESSAGE_BYTES // 2 + 1
    head = struct.pack(">BBQ", 0x02, 0x80 | 127, half) + bytes(4)
    for _ in reader.read(head + bytes(half)):
        pass
    with pytest.raises(StreamError, match="more than"):
        list(reader.read(struct.pack(">BBQ", 0x80, 0x80 | 127, half) + bytes(4)))
