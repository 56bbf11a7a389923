"""Annotations that once said what fields say today: profiles for seccomp and AppArmor, and tolerations.

They are still looked at, and a pod may not say the one thing in the annotation and another one in the field. A profile
for AppArmor becomes the field of a new pod's container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from jettison.apiserver.objects.schema import found_kind, read_document
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid
from jettison.apiserver.objects.validation.pod.placement import validate_tolerations
from jettison.apiserver.objects.validation.pod.security import LONGEST_PROFILE
from jettison.apiserver.objects.validation.pod.systems import containers_of
from jettison.apiserver.objects.validation.pod.volumes import descending_path
from jettison.engine.numbers.strconv import quote
from jettison.errors import InputError

Json = dict[str, Any]

MIRROR: Final = "kubernetes.io/config.mirror"
APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_LOCALHOST: Final = "localhost/"
# What an annotation says for each type of a field.
_DEFAULTS: Final = ("runtime/default", "docker/default")
_SECCOMP_WORDS: Final = {"Unconfined": ("unconfined",), "RuntimeDefault": _DEFAULTS}
_APP_ARMOR_WORDS: Final[dict[str, tuple[str, ...]]] = {"Unconfined": ("unconfined",), "RuntimeDefault": _DEFAULTS[:1]}


def validate_pod_annotations(annotations: dict[str, str], spec: Json, field: str) -> Iterator[Mistake]:
    """Those of a pod or of a template that mean something to Kubernetes itself."""
    if MIRROR in annotations and not spec.get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{field}[{MIRROR}]", annotations[MIRROR], why)
    if annotations.get(_TOLERATIONS):
        yield from _validate_tolerations(annotations[_TOLERATIONS], field)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_cost(cost):
        yield invalid(f"{field}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    if _SECCOMP_POD in annotations:
        yield from _validate_seccomp(annotations[_SECCOMP_POD], f"{field}.{_SECCOMP_POD}")
    for key, profile in annotations.items():
        if key.startswith(_SECCOMP):
            yield from _validate_seccomp(profile, f"{field}.{key}")
    names = {each["name"] for _, each in containers_of(spec, "")}
    for key, profile in annotations.items():
        if not key.startswith(APP_ARMOR):
            continue
        if (name := key.removeprefix(APP_ARMOR)) not in names:
            yield invalid(f"{field}[{key}]", name, "container not found")
        if profile not in ("", "unconfined", *_DEFAULTS[:1]) and not profile.startswith(_LOCALHOST):
            yield invalid(f"{field}[{key}]", profile, f"invalid AppArmor profile name: {quote(profile)}")


def _is_cost(text: str) -> bool:
    """As upstream reads it: no plus, no needless zeros, which would make two texts of one number."""
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10 or (digits[0] == "0" and text != "0"):
        return False
    return -(2**31) <= int(text) < 2**31


def _validate_tolerations(text: str, field: str) -> Iterator[Mistake]:
    """A list in JSON."""
    # The rows that name these rules are read before whatever reads JSON.
    from jettison.apiserver.http.texts import parse_json  # noqa: PLC0415

    try:
        found = parse_json(text.encode("utf-8", "replace"))
        if not isinstance(found, list | None):
            raise InputError(f"json: cannot unmarshal {found_kind(found)} into Go value of type []core.Toleration")
        tolerations = [read_document("Toleration", each or {})[0] for each in found or ()]
    except InputError as error:
        yield invalid(field, _TOLERATIONS, str(error))
        return
    yield from validate_tolerations(tolerations, f"{field}.{_TOLERATIONS}")


def _validate_seccomp(profile: str, field: str) -> Iterator[Mistake]:
    if profile.startswith(_LOCALHOST):
        yield from descending_path(profile.removeprefix(_LOCALHOST), field)
    elif profile not in ("unconfined", *_DEFAULTS):
        yield invalid(field, profile, "must be a valid seccomp profile")


def validate_agreement(annotations: dict[str, str], spec: Json, field: str) -> Iterator[Mistake]:
    """What a new pod, or a template, says of a profile in both places."""
    if not annotations:
        return
    whole = spec.get("securityContext") or {}
    disagreement = _disagreement("seccomp", _SECCOMP_WORDS)
    yield from disagreement(annotations.get(_SECCOMP_POD), whole.get("seccompProfile"), f"{field}.securityContext")
    containers = [(each, where, each.get("securityContext") or {}) for where, each in containers_of(spec, field)]
    for each, where, context in containers:
        said = annotations.get(f"{_SECCOMP}{each['name']}")
        yield from disagreement(said, context.get("seccompProfile"), f"{where}.securityContext")
    if (spec.get("os") or {}).get("name") == "windows":
        return
    disagreement = _disagreement("apparmor", _APP_ARMOR_WORDS)
    for each, where, context in containers:
        said = annotations.get(f"{APP_ARMOR}{each['name']}")
        profile = context.get("appArmorProfile", whole.get("appArmorProfile"))
        yield from disagreement(said, profile, f"{where}.securityContext")


def give_app_armor(pod: Json) -> list[str]:
    """Give the containers of a new pod the profiles that its annotations name. What it is to be warned of."""
    annotations, spec = pod["metadata"].get("annotations"), pod["spec"]
    if not annotations or (spec.get("os") or {}).get("name") == "windows":
        return []
    warnings, whole = [], (spec.get("securityContext") or {}).get("appArmorProfile")
    for _, container in containers_of(spec, ""):
        key, context = f"{APP_ARMOR}{container['name']}", container.get("securityContext") or {}
        if key not in annotations or "appArmorProfile" in context:
            continue
        profile = _named_profile(annotations[key])
        if profile is None or profile != whole:
            why = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            warnings.append(f"metadata.annotations[{key}]: {why}")
        if profile is not None and profile != whole:
            container["securityContext"] = {**context, "appArmorProfile": profile}
    return warnings


def _named_profile(said: str) -> Json | None:
    """The field that an annotation stands for, if it would be valid."""
    for kind, words in _APP_ARMOR_WORDS.items():
        if said in words:
            return {"type": kind}
    name = said.removeprefix(_LOCALHOST)
    if said.startswith(_LOCALHOST) and name and name == name.strip() and len(name.encode()) <= LONGEST_PROFILE:
        return {"type": "Localhost", "localhostProfile": name}
    return None


_Disagreement = Callable[[str | None, Json | None, str], Iterator[Mistake]]


def _disagreement(kind: str, words: dict[str, tuple[str, ...]]) -> _Disagreement:
    key = {"seccomp": "seccompProfile", "apparmor": "appArmorProfile"}[kind]

    def check(said: str | None, profile: Json | None, context: str) -> Iterator[Mistake]:
        if said is None or profile is None:
            return
        where, wanted = f"{context}.{key}", profile.get("type", "")
        if wanted == "Localhost" and said.startswith(_LOCALHOST):
            if profile.get("localhostProfile") != said.removeprefix(_LOCALHOST):
                yield forbidden(f"{where}.localhostProfile", f"{kind} profile in annotation and field must match")
        elif wanted == "Localhost" or said not in words.get(wanted, (said,)):
            yield forbidden(f"{where}.type", f"{kind} type in annotation and field must match")

    return check
