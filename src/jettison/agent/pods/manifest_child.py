"""The child that reads manifests (`manifest_reader`): a parser for YAML, its complaints, and documents as JSON.

Apart, because the agent never loads it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from jettison.errors import ManifestError
from jettison.manifests.files import bounds
from jettison.manifests.files.document_files import parse_documents
from jettison.manifests.files.plain_files import plain_text, read_plain
from jettison.runtimes.linux.aside_child import LONGEST_COMPLAINT, MEMORY, MessageChannel
from jettison.runtimes.linux.files.kernel_files import reason


def serve(channel: MessageChannel) -> None:
    """File after file: its path and its name come, how many documents it has goes, then each document."""
    while path := channel.receive():
        for answer in answers(os.fsdecode(path), channel.receive().decode()):
            channel.send(answer)


def answers(path: str, source: str) -> list[bytes]:
    """How many documents follow and what is wrong, then each document."""
    try:
        text = plain_text(read_plain(Path(path), bounds.LARGEST_FILE), source)
        found = [msgspec.json.encode(each) for each in parse_documents(text, source)]
        for each in found:
            if len(each) > bounds.LARGEST_DOCUMENT:
                most = bounds.LARGEST_DOCUMENT
                raise ManifestError(f"{source}: a document has {len(each)} bytes as JSON, at most {most} are allowed")
        return [msgspec.json.encode((len(found), "")), *found]
    except FileNotFoundError:
        return [msgspec.json.encode((None, ""))]
    except ManifestError as error:
        complaint = str(error)
    except OSError as error:
        complaint = f"{source}: {reason(error)}"
    except MemoryError:
        complaint = f"{source}: reading it takes more than {MEMORY} bytes of memory"
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        complaint = f"{source}: cannot be written as JSON: {error}"
    # A name that is not UTF-8 may be in it.
    said = complaint[:LONGEST_COMPLAINT].encode(errors="backslashreplace").decode()
    return [msgspec.json.encode((0, said))]
