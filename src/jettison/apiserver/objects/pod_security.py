"""What the labels `pod-security.kubernetes.io/…` of a namespace ask of the pods in it.

`enforce` refuses pods, `warn` tells clients of pods and workloads; `audit` is for an audit log, which is not kept here,
and is only read to see whether it makes sense. The checks themselves are in `security_checks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jettison.apiserver.http.statuses import forbidden
from jettison.apiserver.objects.resources import NAMESPACES, PODS
from jettison.apiserver.objects.security_checks import BASELINE, NEWEST, RESTRICTED, secured_pod, violations
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, refusal
from jettison.clock import Clock
from jettison.engine.numbers.strconv import quote
from jettison.values import frozen

Json = dict[str, Any]

MOST_CHECKED_PODS: Final = 3000
"""Of a namespace whose level is raised, as upstream."""

# No other request is answered meanwhile. Upstream takes a second.
_LONGEST_LOOK_NS: Final = 250 * 10**6
_PREFIX: Final = "pod-security.kubernetes.io/"
_PRIVILEGED: Final = "privileged"
_LEVELS: Final = (_PRIVILEGED, BASELINE, RESTRICTED)
_LATEST: Final = "latest"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,8})", re.ASCII)


@frozen
class SecurityLevel:
    """A level, and the release whose idea of it counts."""

    level: str = _PRIVILEGED
    version: str = _LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    @property
    def is_open(self) -> bool:
        """Whether it forbids nothing."""
        return self.level == _PRIVILEGED

    @property
    def strictness(self) -> int:
        """Of the level alone."""
        return _LEVELS.index(self.level)

    def against(self, pod: Json) -> str:
        """What a pod or a template does that is forbidden, in detail; empty: nothing."""
        return ", ".join(map(str, self._violations(pod)))

    def reasons_against(self, pod: Json) -> str:
        """The same, shortly."""
        return ", ".join(each.reason for each in self._violations(pod))

    def _violations(self, pod: Json) -> list[Any]:
        if self.is_open:
            return []
        minor = NEWEST if self.version == _LATEST else int(self.version.removeprefix("v1."))
        return list(violations(secured_pod(pod), self.level, minor))


@frozen
class SecurityPolicy:
    """What a namespace asks for, and what is wrong with its labels. A wrong level to enforce is the strictest one."""

    enforce: SecurityLevel = SecurityLevel()
    warn: SecurityLevel = SecurityLevel()
    mistakes: tuple[Mistake, ...] = ()


_OPEN: Final = SecurityPolicy()


def policy_of(labels: Mapping[str, str] | None) -> SecurityPolicy:
    """From the labels of a namespace."""
    if not labels or not any(key.startswith(_PREFIX) for key in labels):
        return _OPEN
    mistakes: list[Mistake] = []
    read: dict[str, SecurityLevel] = {}
    for mode in ("enforce", "audit", "warn"):
        given, version = labels.get(_PREFIX + mode), labels.get(f"{_PREFIX}{mode}-version", _LATEST)
        level = _PRIVILEGED if given is None else given
        if level not in _LEVELS:
            mistakes.append(_mistake(mode, level, f"must be one of {', '.join(_LEVELS)}"))
            level = RESTRICTED if mode == "enforce" else _PRIVILEGED
        if version != _LATEST and _VERSION.fullmatch(version) is None:
            mistakes.append(_mistake(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
            version = _LATEST
        read[mode] = SecurityLevel(level, version)
    enforce, warn = read["enforce"], read["warn"]
    is_clear = labels.get(_PREFIX + "enforce") == enforce.level
    if _PREFIX + "warn" not in labels and is_clear and enforce.strictness > warn.strictness:
        # What is refused of pods is told of workloads.
        version = warn.version if f"{_PREFIX}warn-version" in labels else enforce.version
        warn = SecurityLevel(enforce.level, version)
    return SecurityPolicy(enforce, warn, tuple(mistakes))


def _mistake(key: str, value: str, why: str) -> Mistake:
    return invalid(f"metadata.labels[{_PREFIX}{key}]", value, why)


def check_pod(policy: SecurityPolicy, pod: Json) -> list[str]:
    """403 for a pod that the namespace refuses; otherwise what to warn of."""
    if against := policy.enforce.against(pod):
        why = f"violates PodSecurity {quote(str(policy.enforce))}: {against}"
        raise forbidden(PODS, pod["metadata"]["name"], why)
    return warn_of(policy, pod)


def warn_of(policy: SecurityPolicy, pod: Json) -> list[str]:
    """What to say of a pod, or of the template of a workload, whose pods may be refused later."""
    against = policy.warn.against(pod)
    return [f"would violate PodSecurity {quote(str(policy.warn))}: {against}"] if against else []


def is_significant(pod: Json, old: Json) -> bool:
    """Whether a change of a pod is looked at: only images can change, and containers can be added for debugging."""
    spec, former = pod["spec"], old["spec"]
    for key in ("containers", "initContainers"):
        if _images(spec.get(key)) != _images(former.get(key)):
            return True
    known = {each["name"]: each.get("image") for each in former.get("ephemeralContainers") or ()}
    return any(
        each["name"] not in known or known[each["name"]] != each.get("image")
        for each in spec.get("ephemeralContainers") or ()
    )


def _images(containers: Iterable[Json] | None) -> list[Any]:
    return [each.get("image") for each in containers or ()]


def check_namespace_labels(namespace: Json, old: Json | None) -> SecurityLevel | None:
    """422 for labels that make no sense, unless they were there. The level that its pods are to be checked against,
    because it is enforced from now on and more than what was.
    """
    new = policy_of(namespace["metadata"].get("labels"))
    former = None if old is None else policy_of(old["metadata"].get("labels"))
    if new.mistakes and (former is None or new.mistakes != former.mistakes):
        raise refusal(NAMESPACES.group, NAMESPACES.kind, namespace["metadata"]["name"], new.mistakes)
    if former is None or new.enforce == former.enforce or new.enforce.is_open:
        return None
    is_relaxed = new.enforce.version == former.enforce.version and (
        new.enforce.strictness <= former.enforce.strictness
    )  # fmt: skip
    return None if is_relaxed else new.enforce


def warn_of_pods(namespace: str, level: SecurityLevel, pods: list[Json], clock: Clock) -> list[str]:
    """Which pods of a namespace would be refused now, as far as there is time to look. They stay."""
    listed = _one_of_each_first(pods)
    end_ns = clock.monotonic_ns() + _LONGEST_LOOK_NS
    names: dict[str, list[str]] = {}
    checked = 0
    for pod in listed[:MOST_CHECKED_PODS]:
        if against := level.reasons_against(pod):
            names.setdefault(against, []).append(pod["metadata"]["name"])
        checked += 1
        if clock.monotonic_ns() > end_ns:
            break
    warnings = []
    if checked < len(listed):
        count = f"the first {checked} of {len(listed)} existing pods"
        warnings.append(f"new PodSecurity enforce level only checked against {count}")
    if names:
        which = f"violate the new PodSecurity enforce level {quote(str(level))}"
        warnings.append(f"existing pods in namespace {quote(namespace)} {which}")
    return [*warnings, *sorted(f"{_first_of(found)}: {why}" for why, found in names.items())]


def _first_of(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other pod{'s' if others > 1 else ''})"


def _one_of_each_first(pods: list[Json]) -> list[Json]:
    """Pods of one controller are alike: one of each before the others."""
    first: list[Json] = []
    rest: list[Json] = []
    seen: set[Any] = set()
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        uid = next((each.get("uid") for each in owners if each.get("controller")), None)
        (rest if uid is not None and uid in seen else first).append(pod)
        seen.add(uid)
    return [*first, *rest]
