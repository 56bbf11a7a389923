"""Files and variables of a pod as orders: all is known but the values of ConfigMaps and Secrets.

What refers to the pod itself, or to a token, is in an order as its text. So it can be carried out where the values are:
here when the objects are small, else in a child (`linux.aside`), of which only a digest or the variables come back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from jettison.errors import ContentError, JettisonError, ObservationError
from jettison.runtimes.host.specs import texts
from jettison.runtimes.host.volumes import shown_files
from jettison.runtimes.host.volumes.shown_files import ContentFile, Files
from jettison.runtimes.kept_text import KeptObject, KeptText, take_apart
from jettison.runtimes.linux.aside import Aside
from jettison.runtimes.linux.aside_child import LONGEST_COMPLAINT, MEMORY, MessageChannel

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of all files of one volume: what it shows is in memory for a moment."""

MOST_FILES: Final = 8000
MOST_VARIABLES: Final = 1000

TOO_MUCH: Final = f"more than {MOST_BYTES} bytes or {MOST_FILES} files in one volume"

DIGEST_SIZE: Final = 32
_LARGEST_ANSWER: Final = 4 * texts.LARGEST_ENVIRONMENT
_DONE, _REFUSED = b"d", b"r"


class GivenFile(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One file whose content is known."""

    path: str
    data: bytes
    mode: int
    user: int | None = None


class ChosenFile(msgspec.Struct, frozen=True, array_like=True):
    """A value of an object as a file."""

    key: str
    path: str
    mode: int


class ObjectFiles(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Files from an object: those that are named, or all of them with one mode.

    `at` is the place of the object among those that come with the order.
    `missing` begins the complaint about a key that is not there; empty where that is no mistake.
    """

    at: int
    files: tuple[ChosenFile, ...]
    mode: int
    missing: str


class Variable(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One whose value is known, as bytes; one that is given is not expanded again."""

    name: str
    value: bytes
    is_given: bool


class AllVariables(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One for each key of an object."""

    at: int
    prefix: str


class KeyVariable(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A value of an object; `missing` is the complaint when it is not there, empty where that is no mistake."""

    name: str
    at: int
    key: str
    missing: str


class FilesOrder(msgspec.Struct, frozen=True, array_like=True):
    """The files of a volume, and the directory and group to show them in; of two with one path the later counts."""

    sources: tuple[GivenFile | ObjectFiles, ...]
    directory: str
    group: int | None


VariablesOrder = tuple[Variable | AllVariables | KeyVariable, ...]
FoundVariables = list[tuple[str, bytes, bool]]
Objects = Sequence[KeptObject]

_FILES: Final = msgspec.json.Decoder(tuple[FilesOrder, bytes])
_VARIABLES: Final = msgspec.json.Decoder(VariablesOrder)
_FOUND: Final = msgspec.json.Decoder(FoundVariables)
_TITLES: Final = msgspec.json.Decoder(list[tuple[str, str] | None])


def show_files(order: FilesOrder, known: bytes, objects: Objects) -> bytes:
    """Write the files, unless their digest is known, which says that they are there. Returns it.

    May wait for a disk. Raises ContentError for what is missing, and MountError.
    """
    files = files_of(order, objects)
    digest = digest_of(files)
    if digest != known:
        shown_files.write(Path(order.directory), files, order.group)
    return digest


def files_of(order: FilesOrder, objects: Objects) -> Files:
    """Raises ContentError."""
    found: dict[PurePosixPath, ContentFile] = {}
    size = 0
    for source in order.sources:
        for path, file in _files_of(source, objects).items():
            size += len(file.data) - len(found[path].data if path in found else b"")
            found[path] = file
        if size > MOST_BYTES or len(found) > MOST_FILES:
            raise ContentError(TOO_MUCH)
    return found


def _files_of(source: GivenFile | ObjectFiles, objects: Objects) -> Files:
    if isinstance(source, GivenFile):
        return {PurePosixPath(source.path): ContentFile(source.data, source.mode, source.user)}
    kept = objects[source.at]
    if not source.files:
        everything = {**kept.data, **kept.binary}
        return {PurePosixPath(key): ContentFile(data, source.mode) for key, data in everything.items()}
    found = {}
    for file in source.files:
        data = kept.data.get(file.key, kept.binary.get(file.key))
        if data is not None:
            found[PurePosixPath(file.path)] = ContentFile(data, file.mode)
        elif source.missing:
            raise ContentError(f"{source.missing}: {file.key}")
    return found


def digest_of(files: Files) -> bytes:
    """Of names, modes, owners and contents."""
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for path, file in sorted(files.items()):
        head = f"{path}\0{file.mode}\0{file.user}\0{len(file.data)}\0"
        digest.update(head.encode(errors="surrogateescape"))
        digest.update(file.data)
    return digest.digest()


def variables_of(order: VariablesOrder, objects: Objects) -> FoundVariables:
    """All of them, in their order. Raises ContentError."""
    found: FoundVariables = []
    for each in order:
        if isinstance(each, Variable):
            found.append((each.name, each.value, each.is_given))
        elif isinstance(each, AllVariables):
            kept = sorted(objects[each.at].data.items())
            found += [(f"{each.prefix}{key}", _given(data, key), True) for key, data in kept]
        elif each.key in objects[each.at].data:
            found.append((each.name, _given(objects[each.at].data[each.key], each.name), True))
        elif each.missing:
            raise ContentError(each.missing)
    size = sum(len(name) + len(value) for name, value, _ in found)
    if len(found) > MOST_VARIABLES or size > texts.LARGEST_ENVIRONMENT:
        bounds = f"{MOST_VARIABLES} variables or {texts.LARGEST_ENVIRONMENT} bytes"
        raise ContentError(f"more than {bounds} in the environment of one container")
    return found


def _given(data: bytes, name: str) -> bytes:
    if b"\0" in data:
        raise ContentError(f"variable `{texts.shown(name)}` has a NUL byte in it, which no program can be given")
    return data


def show_files_aside(order: FilesOrder, known: bytes, objects: Sequence[KeptText | None]) -> bytes:
    """As `show_files`, in a child. Waits for it: call it from a thread. Raises ContentError."""
    return _ask("serve_files", msgspec.json.encode((order, known)), objects)


def variables_aside(order: VariablesOrder, objects: Sequence[KeptText | None]) -> FoundVariables:
    """As `variables_of`, in a child. Waits for it: call it from a thread. Raises ContentError."""
    return _FOUND.decode(_ask("serve_variables", msgspec.json.encode(order), objects))


def _ask(program: str, order: bytes, objects: Sequence[KeptText | None]) -> bytes:
    with Aside(f"{__name__}:{program}") as child:
        try:
            child.send(order)
            child.send(msgspec.json.encode([None if each is None else (each.title, each.label) for each in objects]))
            for each in objects:
                if each is not None:
                    child.send_file(each.descriptor, each.size)
            answer = child.receive(1 + max(_LARGEST_ANSWER, LONGEST_COMPLAINT))
        except ConnectionError:
            answer = b""
        except ObservationError as error:
            raise ContentError(str(error)) from error
        code = child.end()
    if answer[:1] == _REFUSED:
        raise ContentError(answer[1:].decode(errors="replace"))
    if answer[:1] != _DONE:
        raise ContentError(f"the process that reads it crashes, exit code {code}")
    return answer[1:]


def serve_files(channel: MessageChannel) -> None:
    """In the child: one order."""
    order, known = _FILES.decode(channel.receive())
    _answer(channel, lambda objects: show_files(order, known, objects))


def serve_variables(channel: MessageChannel) -> None:
    """In the child: one order."""
    order = _VARIABLES.decode(channel.receive())
    _answer(channel, lambda objects: msgspec.json.encode(variables_of(order, objects)))


def _answer(channel: MessageChannel, work: Callable[[Objects], bytes]) -> None:
    try:
        titles = _TITLES.decode(channel.receive())
        answer = _DONE + work(
            [KeptObject() if each is None else take_apart(channel.receive(), *each) for each in titles]
        )
    except JettisonError as error:
        answer = _REFUSED + str(error).encode(errors="backslashreplace")[:LONGEST_COMPLAINT]
    except MemoryError:
        answer = _REFUSED + f"reading it takes more than {MEMORY} bytes of memory".encode()
    channel.send(answer)
