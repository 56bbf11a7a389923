"""The operator's wishes, parsed and checked: a `KubeletConfig` becomes a `Policy` or a full list of complaints.

What Kubernetes objects to is said with its words and in its order (spec §1.5). That validation never looks inside the
eviction maps; their mistakes are found when they are parsed.

Also here: the profile. `kubelet` answers exactly as Kubernetes does; `improved` is the same with named switches, each
of them explained in docs/faithfulness.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import TypeVar

from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import API_VERSION, BY_KEY, KIND, KubeletConfig
from jettison.engine.node.snapshot import Layout
from jettison.engine.node.thresholds import LayoutThresholds, Threshold, for_layout, list_room, parse_thresholds
from jettison.engine.numbers.durations import duration_text
from jettison.engine.numbers.quantity import Quantity, decimal, parse
from jettison.engine.numbers.strconv import count_cpus, quote
from jettison.errors import Complaint, InputError, PolicyError, QuantityError
from jettison.values import frozen

T = TypeVar("T")

_ENFORCE = "enforceNodeAllocatable (--enforce-node-allocatable)"
_SYSTEM, _KUBE = "system-reserved", "kube-reserved"
_COMPRESSIBLE = "-compressible"


@frozen
class Switches:
    """Where we may do better than upstream. All off is upstream."""

    # A hard disk or process threshold goes before a soft memory one; upstream puts memory first whatever its grace.
    hard_before_soft: bool = False
    # Pods are ranked for inodes by inodes; upstream subtracts the request for storage, which is in bytes.
    rank_inodes_by_inodes: bool = False
    # After a reclaim only the thresholds that were met for the starved resource are looked at again; upstream looks
    # at all, and evicts for disk because memory is low.
    recheck_starved_only: bool = False
    # A hard eviction freezes and kills; upstream sends SIGTERM and waits up to two seconds while the node starves.
    kill_hard_at_once: bool = False
    # A pod on its way out is killed as soon as the node would not survive the rest of its grace period; upstream waits.
    cut_grace_short: bool = False


KUBELET = Switches()
IMPROVED = Switches(**{switch.name: True for switch in fields(Switches)})
PROFILES: Mapping[str, Switches] = {"kubelet": KUBELET, "improved": IMPROVED}


@frozen
class ImageCollection:
    """When unused images go, and how far."""

    high_percent: int = 85
    low_percent: int = 80
    minimum_age_ns: int = 120 * 10**9
    maximum_age_ns: int = 0


@frozen
class ContainerCollection:
    """How many dead containers are kept; negative means all."""

    minimum_age_ns: int = 0
    per_container: int = 1
    total: int = -1


@frozen
class Policy:
    """What `decide` needs to know of the operator's wishes, and the configuration they came from."""

    config: KubeletConfig
    thresholds: tuple[Threshold, ...]
    system_reserved: Mapping[str, Quantity]
    kube_reserved: Mapping[str, Quantity]
    images: ImageCollection
    containers: ContainerCollection
    # For each disk layout, with the container filesystem's thresholds derived.
    layouts: Mapping[Layout, LayoutThresholds]
    switches: Switches = KUBELET

    @classmethod
    def of(cls, document: Mapping[str, object], profile: str = "kubelet") -> Policy:
        """Of a KubeletConfiguration as its file has it, such as `{"evictionHard": {"memory.available": "500Mi"}}`.

        Fields that are not given have their defaults; a PolicyError tells all that is wrong.
        """
        if profile not in PROFILES:
            raise InputError(f"invalid profile `{profile}`: {' or '.join(PROFILES)}")
        whole = {"apiVersion": API_VERSION, "kind": KIND, **document}
        return build_policy(assemble(Source("configuration", whole)), PROFILES[profile])

    @property
    def max_pod_grace(self) -> int:
        """Seconds; caps the termination time of soft evictions."""
        return self.config.eviction_max_pod_grace_period

    @property
    def transition_ns(self) -> int:
        """How long a condition outlives its last observation."""
        return self.config.eviction_pressure_transition_period

    @property
    def isolates_local_storage(self) -> bool:
        """Whether limits on ephemeral storage are enforced."""
        return self.config.local_storage_capacity_isolation


def build_policy(config: KubeletConfig, switches: Switches = KUBELET) -> Policy:
    """The policy that `config` asks for, or a PolicyError with all that is wrong with it."""
    complaints = list(validate(config))
    thresholds = _attempt(complaints, lambda: thresholds_of(config)) or ()
    system = _attempt(complaints, lambda: parse_reservation("systemReserved", config.system_reserved or {})) or {}
    kube = _attempt(complaints, lambda: parse_reservation("kubeReserved", config.kube_reserved or {})) or {}
    if config.minimum_container_ttl < 0:
        age = duration_text(config.minimum_container_ttl)
        complaints.append(Complaint("minimum-container-ttl-duration", f"invalid minimum garbage collection age: {age}"))
    if complaints:
        raise PolicyError(_with_origins(complaints, config))
    if config.reserved_system_cpus and (cpus := count_cpus(config.reserved_system_cpus)):
        kube = {name: amount for name, amount in kube.items() if name != "cpu"}
        system = {**system, "cpu": decimal(cpus)}
    return Policy(
        config,
        thresholds,
        system,
        kube,
        ImageCollection(
            config.image_gc_high_threshold,
            config.image_gc_low_threshold,
            config.image_minimum_gc_age,
            config.image_maximum_gc_age,
        ),
        ContainerCollection(
            config.minimum_container_ttl,
            config.maximum_dead_containers_per_container,
            config.maximum_dead_containers,
        ),
        {layout: for_layout(thresholds, layout, _list_room(config, thresholds)) for layout in _LAYOUTS},
        switches,
    )


_LAYOUTS = tuple(Layout(has_image_fs, is_split) for has_image_fs in (False, True) for is_split in (False, True))


def thresholds_of(config: KubeletConfig) -> tuple[Threshold, ...]:
    """The configured thresholds and the implicit ones on allocatable memory."""
    return parse_thresholds(
        config.eviction_hard or {},
        config.eviction_soft or {},
        config.eviction_soft_grace_period or {},
        config.eviction_minimum_reclaim or {},
        guards_allocatable=_guards_allocatable(config),
    )


def _guards_allocatable(config: KubeletConfig) -> bool:
    return "pods" in config.enforce_node_allocatable and not config.allocatable_ignore_eviction


def _list_room(config: KubeletConfig, thresholds: tuple[Threshold, ...]) -> int:
    guards = _guards_allocatable(config)
    return list_room(config.eviction_hard or {}, config.eviction_soft or {}, thresholds, guards_allocatable=guards)


def _attempt(complaints: list[Complaint], build: Callable[[], T]) -> T | None:
    try:
        return build()
    except PolicyError as error:
        complaints.extend(error.complaints)
        return None


def _with_origins(complaints: Iterable[Complaint], config: KubeletConfig) -> list[Complaint]:
    return [
        replace(
            each, origin=each.origin or config.origins.get(each.key, config.origins.get(each.key.split(".")[0], ""))
        )
        for each in complaints
    ]


RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")


def parse_reservation(field: str, texts: Mapping[str, str]) -> dict[str, Quantity]:
    """What is kept back from pods, or a PolicyError with Kubernetes' words."""
    found: dict[str, Quantity] = {}
    complaints = []
    for name in sorted(texts):
        try:
            found[name] = _reserved(name, texts[name])
        except InputError as error:
            complaints.append(Complaint(f"{field}.{name}", str(error)))
    if complaints:
        raise PolicyError(complaints)
    return found


def _reserved(name: str, text: str) -> Quantity:
    if name not in RESERVABLE:
        raise InputError(f"cannot reserve {quote(name)} resource")
    try:
        amount = parse(text)
    except QuantityError as error:
        raise InputError(f"failed to parse quantity {quote(text)} for {quote(name)} resource: {error}") from error
    if amount.sign < 0:
        raise InputError(f"resource quantity for {quote(name)} cannot be negative: {text}")
    return amount


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
