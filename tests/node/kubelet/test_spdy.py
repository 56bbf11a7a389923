"""Frames of SPDY/3.1: read as they were written, in pieces of any size, and refused where they are too much."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.errors import StreamError
from jettison.node.kubelet import spdy
from jettison.node.kubelet.spdy import Accepted, Data, Leaving, Opened, Reset, SpdyPing, SpdyReader, SpdyWriter


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    """Its length, and the checksum by which every compressed header names it."""
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)


def _everything() -> bytes:
    writer = SpdyWriter()
    return b"".join(
        (
            writer.open(1, {"streamtype": "error"}),
            writer.open(3, {"streamtype": "stdin", "port": "80"}),
            writer.accept(2),
            spdy.data_frame(3, b"hello"),
            spdy.data_frame(3, b"", is_last=True),
            spdy.reset_frame(1, spdy.CANCEL),
            spdy.ping_frame(7),
            # Settings, which are skipped.
            struct.pack(">HHI", 0x8003, 4, 4) + bytes(4),
            spdy.leaving_frame(),
        )
    )


@given(st.lists(st.integers(1, 60), max_size=20))
def test_frames_are_read_as_they_were_written(cuts: list[int]) -> None:
    reader, data, events = SpdyReader(), _everything(), list[spdy.Event]()
    for size in cuts:
        events += reader.read(data[:size])
        data = data[size:]
    events += reader.read(data)
    # Data may come in pieces; what it says does not change.
    spoken = b"".join(each.data for each in events if isinstance(each, Data))
    others = [each for each in events if not isinstance(each, Data)]
    assert spoken == b"hello"
    assert [each.is_last for each in events if isinstance(each, Data)][-1] is True
    assert others == [
        Opened(1, {"streamtype": "error"}, False),
        Opened(3, {"streamtype": "stdin", "port": "80"}, False),
        Accepted(2),
        Reset(1),
        SpdyPing(7),
        Leaving(),
    ]


def _opening(packed: bytes) -> bytes:
    payload = struct.pack(">IIH", 1, 0, 0) + packed
    return struct.pack(">HHI", 0x8003, 1, len(payload)) + payload


def _packed(block: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
    return deflate.compress(block) + deflate.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(struct.pack(">HHI", 0x8003, 1, 0xFFFFFF), id="a control frame of 16 MiB"),
        pytest.param(struct.pack(">HHI", 0x8002, 1, 10) + bytes(10), id="version 2"),
        pytest.param(_opening(b"no zlib"), id="headers that are no zlib"),
        pytest.param(_opening(_packed(struct.pack(">I", 2**31))), id="two thousand million headers"),
        pytest.param(_opening(_packed(struct.pack(">II", 1, 2**31) + b"x")), id="a header of 2 GiB"),
        pytest.param(_opening(_packed(bytes(16 * 1024 * 1024))), id="a few kilobytes that expand to 16 MiB"),
        pytest.param(_opening(_packed(struct.pack(">II", 1, 2) + b"\xff\xff" + bytes(4))), id="a name that is no text"),
        pytest.param(struct.pack(">HHI", 0x8003, 6, 2) + bytes(2), id="a ping without its number"),
    ],
)
def test_what_is_no_frame_or_too_much_is_refused(frame: bytes) -> None:
    with pytest.raises(StreamError):
        list(SpdyReader().read(frame))


def test_a_large_frame_is_not_kept() -> None:
    """16 MiB are announced; what has come is passed on at once."""
    reader = SpdyReader()
    assert list(reader.read(struct.pack(">II", 5, 0xFFFFFF) + b"abc")) == [Data(5, b"abc", False)]
    assert list(reader.read(b"de")) == [Data(5, b"de", False)]
    assert not reader._buffer
