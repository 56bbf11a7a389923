"""What Kubernetes objects to in a KubeletConfiguration, with its words and in its order (spec §1.5).

Validation never looks inside the eviction maps; their mistakes are found when they are parsed.
"""

from __future__ import annotations

from collections.abc import Iterator

from jettison.engine.config.kubelet_fields import BY_KEY, KubeletConfig
from jettison.engine.numbers.cpu_sets import count_cpus
from jettison.engine.numbers.durations import duration_text
from jettison.engine.numbers.strconv import quote
from jettison.errors import Complaint, InputError

_ENFORCE = "enforceNodeAllocatable (--enforce-node-allocatable)"
_SYSTEM, _KUBE = "system-reserved", "kube-reserved"
_COMPRESSIBLE = "-compressible"


def validate(config: KubeletConfig) -> Iterator[Complaint]:
    """Every objection, in Kubernetes' order."""
    yield from _image_collection(config)
    yield from _numbers(config)
    yield from _enforcements(config)
    yield from _reserved_cpus(config)


def _complain(key: str, text: str) -> Complaint:
    return Complaint(key, f"invalid configuration: {text}")


def _named(key: str) -> str:
    return f"{key} (--{BY_KEY[key].flag})"


def _image_collection(config: KubeletConfig) -> Iterator[Complaint]:
    high_key, low_key = "imageGCHighThresholdPercent", "imageGCLowThresholdPercent"
    high, low = config.image_gc_high_threshold, config.image_gc_low_threshold
    for key, percent in ((high_key, high), (low_key, low)):
        if not 0 <= percent <= 100:
            yield _complain(key, f"{_named(key)} {percent} must be between 0 and 100, inclusive")
    if low >= high:
        yield _complain(low_key, f"{_named(low_key)} {low} must be less than {_named(high_key)} {high}")
    shortest, longest = config.image_minimum_gc_age, config.image_maximum_gc_age
    for key, age in (("imageMinimumGCAge", shortest), ("imageMaximumGCAge", longest)):
        if age < 0:
            yield _complain(key, f"{key} {duration_text(age)} must not be negative")
    if 0 < longest <= shortest:
        ages = f"{duration_text(longest)} must be greater than imageMinimumGCAge {duration_text(shortest)}"
        yield _complain("imageMaximumGCAge", f"imageMaximumGCAge {ages}")


def _numbers(config: KubeletConfig) -> Iterator[Complaint]:
    if config.node_status_max_images < -1:
        said = f"{_named('nodeStatusMaxImages')} {config.node_status_max_images} must be -1 or greater"
        yield _complain("nodeStatusMaxImages", said)
    if config.max_pods < 0:
        yield _complain("maxPods", f"{_named('maxPods')} {config.max_pods} must not be a negative number")
    if not -1000 <= config.oom_score_adj <= 1000:
        said = f"{_named('oomScoreAdj')} {config.oom_score_adj} must be between -1000 and 1000, inclusive"
        yield _complain("oomScoreAdj", said)
    if config.pods_per_core < 0:
        yield _complain("podsPerCore", f"{_named('podsPerCore')} {config.pods_per_core} must not be a negative number")


def _enforcements(config: KubeletConfig) -> Iterator[Complaint]:
    wanted = config.enforce_node_allocatable
    for key in (_SYSTEM, _KUBE):
        if key in wanted and key + _COMPRESSIBLE in wanted:
            both = f"both {quote(key)} and {quote(key + _COMPRESSIBLE)}"
            yield _enforce(f"{both} cannot be specified together in {_ENFORCE}")
    seen: set[str] = set()
    for key in wanted:
        if key in seen:
            yield _enforce(f"duplicated enforcements {quote(key)} in {_ENFORCE}")
        else:
            seen.add(key)
            yield from _enforcement(key, config)


def _enforce(text: str) -> Complaint:
    return _complain("enforceNodeAllocatable", text)


def _enforcement(key: str, config: KubeletConfig) -> Iterator[Complaint]:
    if key == "none":
        if len(config.enforce_node_allocatable) > 1:
            yield _enforce(f'{_ENFORCE} may not contain additional enforcements when "none" is specified')
        return
    allowed = ("pods", _SYSTEM, _SYSTEM + _COMPRESSIBLE, _KUBE, _KUBE + _COMPRESSIBLE)
    if key not in allowed:
        options = f'{", ".join(quote(each) for each in allowed)} or "none"'
        yield _enforce(f"option {quote(key)} specified for {_ENFORCE}. Valid options are {options}")
        return
    cgroups = {_SYSTEM: config.system_reserved_cgroup, _KUBE: config.kube_reserved_cgroup}
    reserved = key.removesuffix(_COMPRESSIBLE)
    if cgroups.get(reserved) == "":
        field = "systemReservedCgroup" if reserved == _SYSTEM else "kubeReservedCgroup"
        when = f"when {quote(reserved)} or {quote(reserved + _COMPRESSIBLE)} included in {_ENFORCE}"
        yield _complain(field, f"{_named(field)} must be specified {when}")
    if not config.cgroups_per_qos:
        said = f"{_named('cgroupsPerQOS')} must be set to true when {quote(key)} contained in {_ENFORCE}"
        yield _complain("cgroupsPerQOS", said)


def _reserved_cpus(config: KubeletConfig) -> Iterator[Complaint]:
    text = config.reserved_system_cpus
    if not text:
        return
    named = _named("reservedSystemCPUs")
    if config.system_reserved_cgroup or config.kube_reserved_cgroup:
        others = f"{_named('systemReservedCgroup')} or {_named('kubeReservedCgroup')}"
        yield _complain("reservedSystemCPUs", f"can't use {named} with {others}")
    try:
        count_cpus(text)
    except InputError as error:
        yield _complain("reservedSystemCPUs", f"unable to parse {named} {text}, error: {error}")
