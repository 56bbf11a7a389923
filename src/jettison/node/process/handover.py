"""From the process that reads a command line to the one that does what it says: settings, in a file in memory.

`jettison up` stays for months; click, YAML and the checks of a configuration are needed in its first second. So a
command that stays ends by executing its own words again, in the same process, and `entry` finds the settings there. The
same words and not a module of ours: interpreter, options, `sys.path` and the line in `ps` stay what the operator chose.

A reload reads the command line in the same way, in a child; with `TO` in its environment it leaves the settings there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import msgspec

from jettison.agent.journal.policy_records import policy_from, policy_record
from jettison.engine.config.policy import Policy
from jettison.engine.numbers.quantity import Quantity, parse
from jettison.errors import InputError, JettisonError
from jettison.node.process.entry import FROM, SIGNALS
from jettison.node.settings import NodeSettings
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.processes import set_oom_score_adj

if TYPE_CHECKING:
    from jettison.node.cluster_settings import Settings

T = TypeVar("T")

TO = "JETTISON_SETTINGS_TO"
"""The descriptor of a file to leave the settings in, instead of carrying them out."""

_MODULES = {
    "NodeSettings": "settings",
    "GuardSettings": "cluster_settings",
    "ReliefSettings": "relief_settings",
    "MemberSettings": "cluster_settings",
    "ClusterSettings": "cluster_settings",
}
# What an interpreter can be told at its start only. An agent saves 0.2 MB with one heap for all threads and without
# columns in tracebacks.
_LEAN = {"MALLOC_ARENA_MAX": "1", "PYTHONNODEBUGRANGES": "1"}
_ENVIRONMENT = {
    "NodeSettings": _LEAN,
    "GuardSettings": _LEAN,
    "ReliefSettings": _LEAN,
}
_SECONDS = 60.0
_LONGEST_COMPLAINT = 2000
_MOST_REMARKS = 20
# The agent is the last that the kernel may kill; a process that reads a file of unknown content is the first.
_FIRST_TO_GO = 1000


def hand_over(settings: Settings) -> None:
    """Execute this program again, to carry the settings out; returns only where a reload asked for them."""
    data = encode_settings(settings)
    asked = os.environ.get(TO)
    if asked is not None:
        with os.fdopen(int(asked), "wb") as file:
            file.write(data)
        return
    # Without the flag that would close it: the next program reads it.
    descriptor = os.memfd_create("jettison-settings", 0)
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.environ[FROM] = f"{type(settings).__name__}:{descriptor}"
    for name, value in _ENVIRONMENT.get(type(settings).__name__, {}).items():
        os.environ.setdefault(name, value)
    # No handler outlives the execution, and SIGHUP would end the process. Blocked, a signal waits for the next handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        os.execv(sys.executable, _own_words())  # noqa: S606  ourselves, with the same words
    except OSError as error:
        raise JettisonError(f"cannot execute `{sys.executable}` again: {reason(error)}") from error


def read_again() -> tuple[Settings, tuple[str, ...]]:
    """What the command line of this process says now, and what was remarked on it.

    Takes a second; raises InputError with what is wrong.
    """
    with os.fdopen(os.memfd_create("jettison-settings"), "rb") as file:
        descriptor = file.fileno()
        try:
            reader = subprocess.Popen(  # noqa: S603  this program, with the words that started it
                _own_words(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, TO: str(descriptor)},
                pass_fds=(descriptor,),
            )
        except OSError as error:
            raise InputError(f"no process to read the configuration: {reason(error)}") from error
        lines = _said_by(reader)
        # The child wrote through the same open file, so it stands at its end.
        file.seek(0)
        data = file.read()
    if reader.returncode or not data:
        mistakes = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-1:]
        raise InputError("; ".join(mistakes)[:_LONGEST_COMPLAINT] or f"exit code {reader.returncode}")
    return decode_settings(data), tuple(lines[:_MOST_REMARKS])


def _said_by(reader: subprocess.Popen[bytes]) -> list[str]:
    with reader:
        set_oom_score_adj(reader.pid, _FIRST_TO_GO)
        try:
            said, _ = reader.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            reader.kill()
            raise InputError(f"the configuration was not read within {_SECONDS:g} s") from error
    return said.decode(errors="backslashreplace").splitlines()


def _own_words() -> list[str]:
    return [sys.executable, *sys.orig_argv[1:]]


def encode_settings(settings: Settings) -> bytes:
    """To be handed over."""
    try:
        return msgspec.json.encode([type(settings).__name__, settings_record(settings)], enc_hook=str)
    except UnicodeEncodeError as error:
        raise InputError(f"`{error.object}` is not UTF-8, and would have to be written into records") from error


def decode_settings(data: bytes) -> Settings:
    """As they were handed over."""
    kind, record = msgspec.json.decode(data, type=tuple[str, dict[str, Any]])
    found: Settings = _made(getattr(import_module(f"jettison.node.{_MODULES[kind]}"), kind), record)
    return found


def settings_record(settings: Settings) -> dict[str, Any]:
    """Field by field; a policy as the journal has it, because it holds more than JSON can say."""
    return {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}


def _plain(value: object) -> object:
    if isinstance(value, Policy):
        return policy_record(value)
    if isinstance(value, NodeSettings):
        return settings_record(value)
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _made(kind: type[T], record: dict[str, Any]) -> T:
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in record.items()})


def _value(kind: Any, value: Any) -> Any:
    if kind is Policy:
        return policy_from(value)
    if kind is NodeSettings:
        return _made(NodeSettings, value)
    if kind == tuple[NodeSettings, ...]:
        return tuple(_made(NodeSettings, each) for each in value)
    return msgspec.convert(value, kind, dec_hook=_foreign)


def _foreign(kind: type[Any], value: Any) -> Path | Quantity:
    """What JSON has no form for went through `str`."""
    return parse(value) if kind is Quantity else Path(value)
