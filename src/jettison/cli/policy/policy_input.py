"""Files, drop-ins and flags to a checked `Policy`, and where each of its settings stands.

Every mistake on the way becomes a `Finding` with its file, line, key and value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jettison.cli.options.kubelet_flags import ConfigArguments
from jettison.cli.output import Remarks
from jettison.cli.policy.node_input import read_input, shown
from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import API_VERSION, KIND, KubeletConfig
from jettison.engine.config.policy import KUBELET, PROFILES, Policy, Switches, build_policy
from jettison.engine.config.provenance import Provenance
from jettison.engine.config.suggestions import setting_advice
from jettison.errors import Complaint, InputError, ManifestError, PolicyError
from jettison.manifests.files.config_files import LARGEST_FILE, ConfigFile, drop_in_paths, parse_config_file
from jettison.manifests.files.decoding import shortened
from jettison.values import frozen


@frozen
class Finding:
    """One error or one warning."""

    message: str
    key: str = ""
    # What the key is set to, as written; None where it is not set, or where it is a whole map.
    value: str | None = None
    # A file or a flag; empty where the mistake has no single source.
    source: str = ""
    line: int | None = None
    # The rule of docs/lint.md that it comes from, and what to do about it.
    rule: str = ""
    fix: str = ""

    @property
    def said(self) -> str:
        """Without its place."""
        said = self.message
        if self.key:
            # The engine's own sentences go on from the key: `maxPods is 'x', expected …`.
            goes_on = said.startswith("is ")
            value = "" if goes_on or self.value is None else f" is `{self.value}`"
            said = f"{self.key}{value}{' ' if goes_on else ': '}{said}"
        return said

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return f"{place}: {self.said}" if place else self.said

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "source": self.source or None,
            "line": self.line,
            "key": self.key or None,
            "value": self.value,
            "message": self.message,
            "rule": self.rule or None,
            "fix": self.fix or None,
        }


def value_text(raw: object) -> str | None:
    """A scalar as a person would write it; None for maps and lists, which are too long to repeat."""
    if raw is None or isinstance(raw, Mapping | list | tuple):
        return None
    return shortened(raw if isinstance(raw, str) else json.dumps(raw, default=str))


def counted(number: int, what: str) -> str:
    """`no errors`, `1 error`, `2 errors`."""
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


DEFAULTS_ASSUMED = (
    "no --config: assuming the defaults, those of a kubelet with an empty configuration file; "
    "`--eviction-hard=` takes them away"
)
_DEFAULT = "default"
# Each round finds errors that those of the round before hid; a real file needs two or three.
_MOST_ROUNDS = 50
# A document that is wrong about these is no KubeletConfiguration; there is nothing more to find in it.
_OF_ANOTHER_KIND = ("", "apiVersion", "kind")


@frozen
class Sources:
    """Everything a configuration is made from, decoded."""

    file: ConfigFile | None
    drop_ins: tuple[ConfigFile, ...] = ()
    flags: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> tuple[ConfigFile, ...]:
        """The file and its drop-ins, in their order."""
        return (self.file, *self.drop_ins) if self.file is not None else self.drop_ins

    @property
    def warnings(self) -> list[str]:
        """What was odd about the files themselves."""
        return [warning for file in self.files for warning in file.warnings]

    def assemble(self) -> KubeletConfig:
        """The effective configuration."""
        file = self.file.source if self.file is not None else None
        return assemble(file, [each.source for each in self.drop_ins], self.flags)

    def file_named(self, origin: str) -> ConfigFile | None:
        """The last file of that name."""
        return next((each for each in reversed(self.files) if each.source.name == origin), None)

    def place(self, origin: str, key: str) -> str:
        """Where an effective value comes from: `file:line`, `--flag` or `default`."""
        file = self.file_named(origin)
        return origin if file is None else file.place(key)

    def finding(self, key: str, message: str, origin: str) -> Finding:
        """A finding about what `origin` says under `key`."""
        file = self.file_named(origin)
        message = self._advised(key, message.removeprefix(f"{key}: "), origin)
        if message.startswith(f"{key} is "):
            message = message.removeprefix(f"{key} ")
        if file is None:
            if message.startswith("invalid argument"):
                return Finding(message)  # the kubelet's sentence about a flag names the flag and the text already
            return Finding(message, key, self._flag_value(key, origin), origin if origin.startswith("--") else "")
        return Finding(message, key, value_text(file.value(key)), origin, file.line(key))

    def _advised(self, key: str, message: str, origin: str) -> str:
        file = self.file_named(origin)
        return setting_advice(message, key, self._flag_value(key, origin) if file is None else file.value(key))

    def _flag_value(self, key: str, origin: str) -> str | None:
        entry = key.partition(".")[2]
        texts = [text for flag, text in self.flags if f"--{flag}" == origin]
        if not texts or not entry:
            return value_text(texts[-1]) if texts else None
        pairs = [piece.replace("<", "=", 1).partition("=") for text in texts for piece in text.split(",")]
        return next((value.strip() for name, _, value in reversed(pairs) if name.strip() == entry), None)

    def precise(self, complaint: Complaint) -> Complaint:
        """The same about the one entry of a map that is no text, where the engine names only the map."""
        file = self.file_named(complaint.origin)
        entries = file.value(complaint.key) if file is not None else None
        for name, text in entries.items() if isinstance(entries, Mapping) else ():
            # Not any that is no text: in a drop-in null is fine, it deletes.
            if not isinstance(text, str) and f"`{name}` " in complaint.text:
                said = complaint.text.removeprefix(f"{complaint.key}: `{name}` ")
                return replace(complaint, key=f"{complaint.key}.{name}", text=said)
        return complaint

    def without(self, complaint: Complaint) -> Sources:
        """The same without the value that `complaint` is about, so that what it hides comes to light."""
        if complaint.origin.startswith("--"):
            return replace(self, flags=tuple(each for each in self.flags if f"--{each[0]}" != complaint.origin))
        file = None if self.file is None else _without(self.file, complaint)
        return replace(self, file=file, drop_ins=tuple(_without(each, complaint) for each in self.drop_ins))


def collect_sources(arguments: ConfigArguments, errors: list[Finding]) -> Sources:
    """Read and decode everything; what cannot be read is left out and told in `errors`."""
    file = _read(arguments.file, errors) if arguments.file is not None else None
    drop_ins = _read_directory(arguments.directory, errors) if arguments.directory is not None else []
    return Sources(file, tuple(drop_ins), arguments.flags)


def read_sources(arguments: ConfigArguments) -> Sources:
    """Read and decode everything, or a PolicyError with what is wrong with each file."""
    errors: list[Finding] = []
    sources = collect_sources(arguments, errors)
    if errors:
        raise policy_error(errors)
    return sources


@frozen
class PolicyInput:
    """A policy and what it was made from."""

    policy: Policy
    sources: Sources


def read_policy(arguments: ConfigArguments, profile: str, remarks: Remarks) -> PolicyInput:
    """For commands about a node: with neither file nor directory defaults are assumed; said where they are in force."""
    sources = read_sources(arguments)
    if arguments.file is None and arguments.directory is None:
        sources = replace(sources, file=ConfigFile(Source(_DEFAULT, {"apiVersion": API_VERSION, "kind": KIND})))
    policy = load_policy(sources, PROFILES[profile])
    if sources.file is not None and sources.file.source.name == _DEFAULT and not _is_chosen(policy):
        remarks.notes.append(DEFAULTS_ASSUMED)
    remarks.warnings += sources.warnings
    remarks.warnings += policy.config.warnings
    return PolicyInput(policy, sources)


def _is_chosen(policy: Policy) -> bool:
    """Whether the operator said which hard thresholds there are, so that none of them is a default."""
    return "evictionHard" in policy.config.origins


def load_policy(sources: Sources, switches: Switches = KUBELET) -> Policy:
    """The policy, or a PolicyError with every finding in words."""
    try:
        return build_policy(sources.assemble(), switches)
    except PolicyError as error:
        raise policy_error(inspect(sources)[0]) from error


def inspect(sources: Sources) -> tuple[list[Finding], KubeletConfig | None]:
    """Every mistake, in the order of the files, and the configuration as far as there is one.

    A kubelet stops at the first stage that finds a mistake; here its victims are set aside and it goes on.
    """
    found: list[Complaint] = []
    config = _assembled(sources, found)
    origins = config.origins if config is not None else {}
    try:
        if config is not None:
            build_policy(config)
    except PolicyError as error:
        found += [each for each in error.complaints if not _follows_from(each, found)]
    names = [each.source.name for each in sources.files]
    findings = [_finding(sources, each, origins) for each in found]
    findings.sort(key=lambda each: (names.index(each.source) if each.source in names else len(names), each.line or 0))
    return findings, config


def policy_error(findings: Iterable[Finding]) -> PolicyError:
    """All of them at once, each in words."""
    return PolicyError(Complaint(each.key, str(each), each.source) for each in findings)


def _assembled(sources: Sources, found: list[Complaint]) -> KubeletConfig | None:
    """What is left of the configuration without those values that `found` is about afterwards."""
    for _ in range(_MOST_ROUNDS):
        try:
            return sources.assemble()
        except PolicyError as error:
            before = sources
            for complaint in map(before.precise, error.complaints):
                found.append(complaint)
                sources = sources.without(complaint)
            if sources == before or any(each.key in _OF_ANOTHER_KIND for each in error.complaints):
                return None
    return None


def _finding(sources: Sources, complaint: Complaint, origins: Mapping[str, str]) -> Finding:
    key, origin = complaint.key, complaint.origin
    if not origin:
        # For a grace period that is missing, the place is that of the threshold that needs it.
        origin = origins.get(key.replace("evictionSoftGracePeriod.", "evictionSoft.", 1), "")
        if origin:
            key = key.replace("evictionSoftGracePeriod.", "evictionSoft.", 1)
    return sources.finding(key, complaint.text, origin)


def _follows_from(complaint: Complaint, found: Iterable[Complaint]) -> bool:
    """Whether it only says that something is missing or odd that was set aside before."""
    key = complaint.key
    return any(key == each.key or key.startswith(f"{each.key}.") or each.key in complaint.text for each in found)


def _without(file: ConfigFile, complaint: Complaint) -> ConfigFile:
    document = file.source.document
    if file.source.name != complaint.origin or not isinstance(document, Mapping):
        return file
    field, _, entry = complaint.key.partition(".")
    kept = {key: value for key, value in document.items() if key != field}
    entries = document.get(field)
    if entry and isinstance(entries, Mapping):
        kept[field] = {name: text for name, text in entries.items() if str(name) != entry}
    return replace(file, source=replace(file.source, document=kept))


def _read(path: str, errors: list[Finding]) -> ConfigFile | None:
    name = shown(path)
    try:
        return parse_config_file(read_input(path, LARGEST_FILE), name)
    except ManifestError as error:
        placed = re.fullmatch(rf"{re.escape(name)}(?::(\d+))?: (.*)", str(error), re.DOTALL)
        line, said = placed.groups() if placed is not None else (None, str(error))
        errors.append(Finding(said, source=name, line=int(line) if line else None))
    except InputError as error:
        errors.append(Finding(str(error)))
    return None


def _read_directory(directory: str, errors: list[Finding]) -> Sequence[ConfigFile]:
    try:
        paths = drop_in_paths(Path(directory))
    except InputError as error:
        errors.append(Finding(str(error)))
        return []
    return [each for path in paths if (each := _read(str(path), errors)) is not None]


def place_of(provenance: Provenance, found: PolicyInput, field: str | None = None) -> str | None:
    """`file:line`, `--flag` or `default`; with another `field` the place of this signal's entry there."""
    key = provenance.key_in(field or provenance.field)
    origin = found.policy.config.origins.get(key)
    return None if origin is None else found.sources.place(origin, key)
