"""What may be a label key and a label value, in Kubernetes' own words; and which labels a node may give itself.

Selectors, node labels and API validation all complain with these texts, so they live in one place. Lengths
are counted in bytes of UTF-8: 40 letters `é` are too long a name.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST_NAME: Final = 63
LONGEST_PREFIX: Final = 253

_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_NAME})?"
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_NAME_COMPLAINT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_COMPLAINT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_SUBDOMAIN_COMPLAINT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)

_RESERVED: Final = "node-restriction.kubernetes.io"
_SYSTEM: Final = ("kubernetes.io", "k8s.io")
NODE_LABEL_PREFIXES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
NODE_LABELS: Final = frozenset(
    (
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    )
)
"""Under kubernetes.io and k8s.io, what a node may say of itself, beside what begins with the prefixes above."""


def label_key_complaints(key: str) -> list[str]:
    """Everything wrong with a key, that is with `name` or `prefix/name`; empty when it is valid."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_NAME_COMPLAINT} {hint}"]
    complaints = []
    if slash:
        complaints += [f"prefix part {each}" for each in _prefix_complaints(prefix)]
    if not name:
        complaints.append("name part must be non-empty")
    elif _bytes(name) > LONGEST_NAME:
        complaints.append(f"name part must be no more than {LONGEST_NAME} bytes")
    if not re.fullmatch(_NAME, name):
        complaints.append(f"name part {_NAME_COMPLAINT}")
    return complaints


def label_value_complaints(value: str) -> list[str]:
    """Everything wrong with a value; empty when it is valid, as the empty value is."""
    complaints = []
    if _bytes(value) > LONGEST_NAME:
        complaints.append(f"must be no more than {LONGEST_NAME} bytes")
    if not re.fullmatch(_VALUE, value):
        complaints.append(_VALUE_COMPLAINT)
    return complaints


def is_administrators_label(key: str) -> bool:
    """Whether a node may not give itself this label: it would have work steered to it that is meant for others."""
    prefix, slash, _ = key.partition("/")
    if not slash:
        return False
    is_nodes = key in NODE_LABELS or _is_within(prefix, NODE_LABEL_PREFIXES)
    return _is_within(prefix, (_RESERVED,)) or (_is_within(prefix, _SYSTEM) and not is_nodes)


def _is_within(prefix: str, domains: tuple[str, ...]) -> bool:
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def _prefix_complaints(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    complaints = []
    if _bytes(prefix) > LONGEST_PREFIX:
        complaints.append(f"must be no more than {LONGEST_PREFIX} bytes")
    if not re.fullmatch(_SUBDOMAIN, prefix):
        complaints.append(_SUBDOMAIN_COMPLAINT)
    return complaints


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
