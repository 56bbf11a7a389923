"""`engine.pods.Pod` to a v1 Pod that reads back as an equal pod.

The document says what eviction knows of the pod and no more: a hostPath volume is written as an emptyDir, because all
that counts of either is that it lies on the node's disks.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from jettison.engine.numbers.quantity import EXPONENT_LIMIT, LENGTH_LIMIT, Format, Quantity, canonical, parse
from jettison.engine.pods.pod import Container, Pod, Resources, Volume
from jettison.engine.scheduling.placement import Toleration
from jettison.errors import QuantityError
from jettison.manifests.pods import CONFIG_MIRROR, CONFIG_SOURCE

Document = dict[str, Any]

_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_LARGEST_BINARY = (2**63 - 1, 0)
_BEYOND_LARGEST = "8Ei"


def pod_document(pod: Pod) -> Document:
    """What is empty is left out."""
    annotations = {}
    if pod.is_static:
        annotations[CONFIG_SOURCE] = "file"
    if pod.is_mirror:
        annotations[CONFIG_MIRROR] = pod.static_uid
    metadata = {
        "name": pod.name,
        "namespace": pod.namespace or None,
        "uid": pod.uid or None,
        "generation": pod.generation or None,
        "annotations": annotations or None,
    }
    status = {"qosClass": pod.reported_qos or None, "phase": pod.phase or None}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": present(metadata), "spec": _spec(pod)}
    return {**document, "status": present(status)} if any(status.values()) else document


def _spec(pod: Pod) -> Document:
    resources = pod.resources
    return present(
        {
            "containers": [_container(each) for each in pod.containers],
            "initContainers": [_container(each) for each in pod.init_containers] or None,
            "overhead": _texts(pod.overhead),
            "resources": None if resources is None else _resources(resources.requests, resources.limits),
            "volumes": [_volume(each) for each in pod.volumes] or None,
            "tolerations": _tolerations(pod.tolerations) or None,
            "priority": pod.priority,
            "priorityClassName": pod.priority_class or None,
            "terminationGracePeriodSeconds": pod.grace_seconds,
            "nodeName": pod.node_name or None,
        }
    )


def _container(container: Container) -> Document:
    resources = _resources(container.requests, container.limits) or None
    restarts = "Always" if container.is_sidecar else None
    return present({"name": container.name, "resources": resources, "restartPolicy": restarts})


def _resources(requests: Resources, limits: Resources) -> Document:
    return present({"requests": _texts(requests), "limits": _texts(limits)})


def _texts(resources: Resources) -> dict[str, str] | None:
    return {name: exact_text(amount) for name, amount in resources.items()} or None


def _volume(volume: Volume) -> Document:
    if volume.size_limit is None:
        return {"name": volume.name, "emptyDir": {}} if volume.is_local else {"name": volume.name}
    empty_dir = {"sizeLimit": exact_text(volume.size_limit)}
    return {"name": volume.name, "emptyDir": empty_dir if volume.is_local else {"medium": "Memory", **empty_dir}}


def _tolerations(tolerations: Iterable[Toleration]) -> list[Document]:
    return [
        present(
            {
                "key": each.key or None,
                "operator": each.operator or None,
                "value": each.value or None,
                "effect": each.effect or None,
                "tolerationSeconds": each.seconds,
            }
        )
        for each in tolerations
    ]


def present(document: Document) -> Document:
    """Without what is None: in Kubernetes' documents absent and null are the same, and absent is shorter."""
    return {key: value for key, value in document.items() if value is not None}


def exact_text(quantity: Quantity) -> str:
    """A text that `parse` makes the very same quantity of, not only as much; short and familiar where that is enough.

    What a quantity prints is not always what it was read from: `0.5Ki` prints as `512`, which reads back as a decimal
    number and makes every sum with it print differently; `1000E` even prints as `1`, as it does upstream. A pod that is
    stored to be decided about again needs the same sums and the same messages.
    """
    if quantity.spelling is not None:
        return quantity.spelling
    text = canonical(quantity)
    try:
        is_exact = _is_same(parse(text), quantity)
    except QuantityError:  # canonical exponents may be beyond what is read
        is_exact = False
    if is_exact:
        return text
    text = (_big_text if quantity.is_big else _small_text)(quantity, abs(quantity.unscaled))
    if len(text) >= LENGTH_LIMIT:
        text = f"1e{EXPONENT_LIMIT}"  # sixteen thousand digits: more than anything there is, and so is this
    return f"-{text}" if quantity.unscaled < 0 else text


def _is_same(one: Quantity, other: Quantity) -> bool:
    return (one.unscaled, one.scale, one.format, one.is_big) == (
        other.unscaled,
        other.scale,
        other.format,
        other.is_big,
    ) and str(one) == str(other)


def _small_text(quantity: Quantity, number: int) -> str:
    scale = quantity.scale
    if quantity.format is Format.BINARY:
        return f"{number}Ki"  # only zero gets here: everything else prints exactly
    if quantity.format is Format.EXPONENT:
        # `5e0` would be remembered as it is written; behind a point the digits are not.
        return f"0.{number}e{len(str(number))}" if scale == 0 and number % 1000 else f"{number}e{scale}"
    places = -scale % 3
    return _with_point(str(number), places) + _DECIMAL_SUFFIXES[scale + places]


def _big_text(quantity: Quantity, number: int) -> str:
    """A binary quantity is read as a big one if it has a point, others if they have more than nine digits behind it."""
    if quantity.format is Format.BINARY:
        if (number, quantity.scale) == _LARGEST_BINARY:
            return _BEYOND_LARGEST
        text = canonical(quantity).lstrip("-")
        if text.endswith("i"):
            return f"{text[:-2]}.0{text[-2:]}"
        return _with_point(_digits(number * 5**10), 19) + "Ki"
    return _with_point(_digits(number) + "0", 10) + ("e0" if quantity.format is Format.EXPONENT else "")


def _with_point(digits: str, places: int) -> str:
    if places == 0:
        return digits
    digits = digits.rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"


def _digits(number: int) -> str:
    return format(Decimal(number), "f")  # str() refuses more than 4300 digits
