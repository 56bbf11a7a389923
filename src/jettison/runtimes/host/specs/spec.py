"""What a pod's document asks this host to run, checked before anything is touched.

A bare host is not a container runtime, and what it cannot do is refused rather than ignored: a pod that
needs another network, or another user, must not start without. With no image there is no entry point either, so
`command` is required.

Where a container runtime is offered (`ImageOffer`), a pod all of whose containers name an image runs in containers, and
everything else as processes: one pod is one kind.

A node that answers Failed at once for a pod that it cannot run makes a storm: a ReplicaSet replaces the pod at once,
and the next one fails as fast (413 pods in 11 s were measured with Kubernetes' own controller). A kubelet that cannot
pull an image or mount a volume keeps the pod Pending, says why, and tries again with back-off. So does this node, for
everything that a document asks for and a bare host does not have: the document is read into a `Refusal`, which says why
the pod waits in the words that kubectl shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any, NamedTuple

from jettison.engine.config.suggestions import quantity_advice
from jettison.engine.lifecycle.rules import DEFAULT_GRACE, RestartPolicy
from jettison.engine.lifecycle.state import Trouble
from jettison.engine.numbers.quantity import parse
from jettison.errors import ImageError, ManifestError, QuantityError
from jettison.manifests.files import bounds
from jettison.manifests.files.decoding import convert, shortened
from jettison.runtimes.containers import BoxSecurity, PortMapping
from jettison.runtimes.host.specs import pod_documents as wire
from jettison.runtimes.host.specs import texts
from jettison.runtimes.host.specs.content import AllKeys, Reference, all_keys, variable_reference
from jettison.runtimes.host.specs.probes import ExecAction, Hook, ProbeSpec, hook_spec, probe_specs
from jettison.runtimes.host.specs.security import (
    NO_SECURITY,
    SecuritySpec,
    box_security,
    check_pod_security,
    security_spec,
)
from jettison.runtimes.host.specs.texts import Sizes
from jettison.runtimes.host.specs.volumes import MountSpec, VolumeNeededError, VolumeSpec, mount_specs, volume_spec
from jettison.runtimes.protocol import PodManifest
from jettison.values import frozen

# The uid is part of file names (`<uid>.json`, `pod<uid>`), which have at most 255 bytes.
_LONGEST_UID = 200
_LONGEST_FILE_NAME = 255
_LONGEST_PATH = 4095
_LONGEST_HOSTNAME = 63
_PORTS = 65_536

# More than any pod has. A container is a cgroup, and 8 kB of an agent's memory; what the guarding loop does when one
# starts or ends grows with their number, and stays below a millisecond.
_MOST_CONTAINERS, _MOST_VOLUMES, _MOST_MOUNTS, _MOST_POD_MOUNTS = 32, 64, 64, 256
_MOST_VARIABLES, _MOST_SOURCES, _MOST_WORDS, _MOST_PORTS = 500, 64, 1000, 100
# These two are looked at and recorded whenever the pod is measured.
_MOST_TOLERATIONS, _MOST_RESOURCES = 100, 50

FAILED, FAILED_MOUNT, NO_CGROUP = "Failed", "FailedMount", "FailedCreatePodContainer"
NO_SANDBOX = "FailedCreatePodSandBox"
"""The kubelet's reasons of the events."""

_CREATING = "ContainerCreating"
_MISCONFIGURED = "CreateContainerConfigError"
_PULLING = "ImagePullBackOff"
_NEVER_PULLED = "ErrImageNeverPull"
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")

_LONGEST_DEADLINE = 2**31 - 1

_NO_DEBUGGER = (
    "no command: this pod runs as processes, without images; write `kubectl debug POD --image=ANY -- COMMAND`"
)


class ImageNeededError(ManifestError):
    """The container has no command of its own: only an image could bring one."""

    def __init__(self, message: str, image: str) -> None:
        super().__init__(message)
        self.image = image


@frozen
class ImageOffer:
    """There is a container runtime; `is_only` where pods run in nothing else."""

    is_only: bool = False
    allows_privileged: bool = False


@frozen
class ImageSpec:
    """What a container takes from an image. `args` still hold their `$(VARIABLES)`."""

    name: str
    pull_policy: str
    args: tuple[str, ...] = ()
    security: BoxSecurity = field(default_factory=BoxSecurity)


class StreamSpec(NamedTuple):
    """Of a container to which clients may attach. A process of this host takes every client's input. Only one of an
    ephemeral container has a terminal: what it writes waits there for a client, which no other container should do.
    """

    has_input: bool = False
    has_input_once: bool = False
    has_terminal: bool = False


_NO_STREAMS = StreamSpec()


@frozen
class ContainerSpec:
    """`command` and `env` still hold their `$(VARIABLES)` and references: some values are known only at the start."""

    name: str
    command: tuple[str, ...]
    env: tuple[tuple[str, str | Reference], ...] = ()
    env_from: tuple[AllKeys, ...] = ()
    working_dir: str = ""
    mounts: tuple[MountSpec, ...] = ()
    probes: tuple[ProbeSpec, ...] = ()
    post_start: Hook | None = None
    pre_stop: Hook | None = None
    security: SecuritySpec = NO_SECURITY
    is_init: bool = False
    # An init container that is kept running.
    is_sidecar: bool = False
    # None: it is a process of this host.
    image: ImageSpec | None = None
    streams: StreamSpec = _NO_STREAMS
    # Added to a running pod, for debugging.
    is_ephemeral: bool = False
    # The container whose processes an ephemeral one sees as well; empty for none.
    target: str = ""
    # Why an ephemeral container cannot be run here; empty where it can.
    refusal: str = ""

    @property
    def user(self) -> int | None:
        """The user that it runs as, if the document says so."""
        return self.security.user if self.image is None else self.image.security.user

    @property
    def literals(self) -> tuple[tuple[str, str], ...]:
        """The variables that are in the document itself."""
        return tuple((name, value) for name, value in self.env if isinstance(value, str))

    @property
    def has_references(self) -> bool:
        """Whether other variables have to be asked for."""
        return bool(self.env_from) or any(not isinstance(value, str) for _, value in self.env)


@frozen
class PodSpec:
    """What to run, and how."""

    containers: tuple[ContainerSpec, ...]
    init_containers: tuple[ContainerSpec, ...] = ()
    volumes: tuple[VolumeSpec, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    grace_seconds: int = DEFAULT_GRACE
    # How long it may be active on the node, whatever it does; None for as long as it likes.
    deadline_seconds: int | None = None
    # The group that owns its emptyDirs, and can read what the node writes into its other volumes.
    fs_group: int | None = None
    account: str = ""
    # Of containers; processes of this host see all processes anyway.
    has_host_processes: bool = False
    shares_processes: bool = False
    # Of containers, where the runtime has a network for pods.
    has_host_network: bool = False
    hostname: str = ""
    ports: tuple[PortMapping, ...] = ()
    ephemeral_containers: tuple[ContainerSpec, ...] = ()
    # Its processes share memory with those of the host.
    has_host_memory: bool = False

    @property
    def everything(self) -> tuple[ContainerSpec, ...]:
        """All containers, in the order in which they start."""
        return (*self.init_containers, *self.containers, *self.ephemeral_containers)

    @property
    def is_boxed(self) -> bool:
        """It runs in containers."""
        return any(each.image is not None for each in self.containers)


def pod_spec(document: object, source: str = "pod", offer: ImageOffer | None = None) -> PodSpec:
    """What the document asks for, or a ManifestError that names the part which cannot be had."""
    pod = convert(document, wire.PodWire, source)
    try:
        return _pod(pod, offer)
    except ManifestError as error:
        raise _inside(source, error) from error


def _pod(pod: wire.PodWire, offer: ImageOffer | None) -> PodSpec:
    spec, metadata = pod.spec, pod.metadata
    _check_identity(metadata)
    refused = (metadata.annotations or {}).get(bounds.REFUSED)
    if refused is not None:
        raise ManifestError(texts.shown(refused))
    texts.at_most(_MOST_TOLERATIONS, spec.tolerations, "spec.tolerations")
    _check_amounts(spec.resources, "spec.resources")
    texts.at_most(_MOST_RESOURCES, tuple(spec.overhead or ()), "spec.overhead")
    volumes = tuple(volume_spec(volume) for volume in texts.at_most(_MOST_VOLUMES, spec.volumes, "spec.volumes"))
    everything = [*(spec.init_containers or ()), *(spec.containers or ())]
    texts.at_most(_MOST_CONTAINERS, everything, "spec.containers and spec.initContainers")
    mounts = [mount for container in everything for mount in container.volume_mounts or ()]
    texts.at_most(_MOST_POD_MOUNTS, mounts, "volumeMounts of all containers")
    texts.unique((volume.name for volume in volumes), "volume")
    check_pod_security(spec)
    if offer is not None and not offer.is_only and not all(each.image for each in everything):
        offer = None
    reader = _ContainerReader(frozenset(volume.name for volume in volumes), pod, offer)
    containers = reader.read(spec.containers or (), is_init=False)
    init_containers = reader.read(spec.init_containers or (), is_init=True)
    if not containers:
        raise ManifestError("spec.containers: required value")
    names = [container.name for container in (*init_containers, *containers)]
    texts.unique(names, "container")
    policy = texts.choice(spec.restart_policy or "Always", tuple(RestartPolicy), "spec.restartPolicy")
    grace = spec.termination_grace_period_seconds
    return PodSpec(
        containers,
        init_containers,
        volumes,
        RestartPolicy(policy),
        DEFAULT_GRACE if grace is None else grace,
        spec.active_deadline_seconds,
        spec.security_context.fs_group if spec.security_context is not None else None,
        texts.subdomain(spec.service_account_name, "serviceAccountName") if spec.service_account_name else "",
        bool(spec.host_pid),
        bool(spec.share_process_namespace),
        bool(spec.host_network),
        texts.label(spec.hostname, "spec.hostname") if spec.hostname else _hostname(metadata.name),
        tuple(_port(each) for container in everything for each in container.ports or () if each.host_port),
        reader.read_ephemeral(spec.ephemeral_containers or (), frozenset(names)),
        bool(spec.host_ipc),
    )


def _hostname(name: str) -> str:
    """A pod's name may be longer than a host's."""
    return name[:_LONGEST_HOSTNAME].rstrip("-.")


def _port(port: wire.PortWire) -> PortMapping:
    protocol = texts.choice(port.protocol or "TCP", ("TCP", "UDP", "SCTP"), "ports: protocol")
    for name, number in (("containerPort", port.container_port), ("hostPort", port.host_port or 0)):
        if not 0 < number < _PORTS:
            raise ManifestError(f"ports: {name} is `{texts.shown(number)}`, must be between 1 and 65535")
    return PortMapping(port.container_port, port.host_port or 0, protocol, texts.passable(port.host_ip or "", "hostIP"))


def _inside(where: str, error: ManifestError) -> ManifestError:
    """The same with the place: what kind of thing is missing must not get lost on the way out."""
    text = f"{where}: {error}"
    if isinstance(error, ImageNeededError):
        return ImageNeededError(text, error.image)
    return VolumeNeededError(text) if isinstance(error, VolumeNeededError) else ManifestError(text)


def _check_identity(metadata: wire.MetadataWire) -> None:
    name = texts.subdomain(metadata.name, "metadata.name")
    namespace = texts.label(metadata.namespace or "", "metadata.namespace")
    uid = metadata.uid or ""
    if len(uid) > _LONGEST_UID:
        raise ManifestError(f"metadata.uid has {len(uid)} characters, at most {_LONGEST_UID} are allowed")
    # Kubernetes accepts such a pod and then fails to start it, again and again.
    if len(f"{namespace}_{name}_{uid}") > _LONGEST_FILE_NAME:
        raise ManifestError("namespace, name and uid together do not fit into the 255 characters of a file name")


class _ContainerReader:
    """Containers of one pod; what they may refer to is the same for all."""

    def __init__(self, volumes: frozenset[str], pod: wire.PodWire, offer: ImageOffer | None) -> None:
        self._offer = offer
        self._volumes = volumes
        self._security = pod.spec.security_context
        self._annotations = pod.metadata.annotations or {}
        grace = pod.spec.termination_grace_period_seconds
        self._grace_seconds = DEFAULT_GRACE if grace is None else grace

    def read(self, containers: Iterable[wire.ContainerWire], *, is_init: bool) -> tuple[ContainerSpec, ...]:
        """All of one list, in its order."""
        found = []
        for container in containers:
            texts.label(container.name, "container name")
            try:
                found.append(self._container(container, is_init=is_init))
            except ManifestError as error:
                raise _inside(f"container `{container.name}`", error) from error
        return tuple(found)

    def read_ephemeral(self, containers: Iterable[dict[str, Any]], taken: frozenset[str]) -> tuple[ContainerSpec, ...]:
        """Those that were added. What cannot be had of one is its own affair: the pod runs."""
        found: dict[str, ContainerSpec] = {}
        for each in containers:
            name = each.get("name")
            if not isinstance(name, str) or not texts.is_label(name) or name in taken or name in found:
                continue  # it has no place among the statuses
            try:
                found[name] = self._ephemeral(convert(each, wire.EphemeralWire, "document"), taken)
            except ManifestError as error:
                found[name] = ContainerSpec(name, (), is_ephemeral=True, refusal=str(error))
        return tuple(found.values())

    def _ephemeral(self, container: wire.EphemeralWire, taken: frozenset[str]) -> ContainerSpec:
        if container.refused is not None:
            raise ManifestError(container.refused)
        resources = container.resources or wire.ResourcesWire()
        probes = container.readiness_probe or container.liveness_probe or container.startup_probe
        if probes or container.lifecycle or container.ports or resources.requests or resources.limits:
            raise ManifestError("probes, hooks, ports and resources: cannot be set for an Ephemeral Container")
        target = container.target_container_name or ""
        if target and target not in taken:
            raise ManifestError(f"targetContainerName: the pod has no container `{texts.shown(target)}`")
        if self._offer is None and not container.command:
            raise ManifestError(_NO_DEBUGGER)
        return replace(self._container(container, is_init=False), is_ephemeral=True, target=target)

    def _container(self, container: wire.ContainerWire, *, is_init: bool) -> ContainerSpec:
        image = None if self._offer is None else self._image(container, self._offer)
        _check_possible(container, is_init=is_init, has_image=image is not None)
        _check_amounts(container.resources, "resources")
        command = container.command or []
        words = texts.at_most(_MOST_WORDS, command + (container.args or []), "command")
        texts.at_most(_MOST_PORTS, container.ports, "ports")
        hooks = container.lifecycle or wire.LifecycleWire()
        found = ContainerSpec(
            container.name,
            tuple(texts.passable(word, "command") for word in (words if image is None else command)),
            tuple(_variable(each, container.name) for each in texts.at_most(_MOST_VARIABLES, container.env, "env")),
            tuple(all_keys(texts.at_most(_MOST_SOURCES, container.env_from, "envFrom"))),
            _working_dir(container.working_dir or ""),
            mount_specs(
                texts.at_most(_MOST_MOUNTS, container.volume_mounts, "volumeMounts"),
                self._volumes,
                in_container=image is not None,
            ),
            probe_specs(container),
            hook_spec(hooks.post_start, container, self._grace_seconds, "lifecycle.postStart"),
            hook_spec(hooks.pre_stop, container, self._grace_seconds, "lifecycle.preStop"),
            NO_SECURITY
            if image is not None
            else security_spec(container.name, self._security, container.security_context, self._annotations),
            is_init,
            container.restart_policy is not None,
            image,
            StreamSpec(bool(container.stdin), bool(container.stdin_once), bool(container.tty)),
        )
        _check_sizes(found)
        return found

    def _image(self, container: wire.ContainerWire, offer: ImageOffer) -> ImageSpec:
        name = container.image
        if not isinstance(name, str) or not name:
            raise ManifestError("image: required value, because pods of this node run in containers")
        if len(name) > _LONGEST_PATH or not name.isascii() or not name.isprintable() or " " in name:
            raise ManifestError(f"image `{texts.shown(name)}` is not the name of an image")
        # `name:tag@digest`; a colon before the last slash is a registry's port. Without a tag it is the latest.
        tag = name.partition("@")[0].rpartition("/")[2].partition(":")[2]
        usual = "Always" if tag in ("", "latest") and "@" not in name else "IfNotPresent"
        policy = texts.choice(container.image_pull_policy or usual, _PULL_POLICIES, "imagePullPolicy")
        security = box_security(
            container.name,
            self._security,
            container.security_context,
            self._annotations,
            allows_privileged=offer.allows_privileged,
        )
        args = tuple(texts.passable(word, "args") for word in container.args or ())
        return ImageSpec(name, policy, args, security)


def _variable(variable: wire.EnvWire, container: str) -> tuple[str, str | Reference]:
    if not texts.is_variable(variable.name):
        raise ManifestError(f"env: `{texts.shown(variable.name)}` is not a name, allowed: ASCII without `=`")
    where = f"env `{shortened(variable.name)}`"
    if variable.value or variable.value_from is None:
        return variable.name, texts.passable(variable.value or "", where)
    try:
        return variable.name, variable_reference(variable.value_from, container)
    except ManifestError as error:
        raise ManifestError(f"{where}: {error}") from error


def _check_possible(container: wire.ContainerWire, *, is_init: bool, has_image: bool) -> None:
    if not has_image and (not container.command or not container.command[0]):
        why = "no command: a bare host runs no images; give the container a `command`, which is run as a process"
        raise ImageNeededError(why, texts.shown(container.image or ""))
    if container.restart_policy is not None and not (is_init and container.restart_policy == "Always"):
        raise ManifestError("restartPolicy: may only be `Always`, and only on init containers")
    has_probe = container.readiness_probe or container.liveness_probe or container.startup_probe
    if is_init and container.restart_policy is None and (has_probe or container.lifecycle):
        raise ManifestError("probes and hooks: an init container that runs to its end has none")


def _working_dir(path: str) -> str:
    if len(path) > _LONGEST_PATH:
        raise ManifestError(f"workingDir: {len(path)} characters, at most {_LONGEST_PATH} can be a path")
    return texts.passable(path, "workingDir")


def _check_sizes(container: ContainerSpec) -> None:
    """What the expansion of variables makes of it, as far as they are known: those that we set are short."""
    sizes = Sizes()
    for name, value in container.env:
        if isinstance(value, str):
            sizes.variable(name, value)
    sizes.words(container.command, "command")
    if container.image is not None:
        sizes.words(container.image.args, "args")
    for name, hook in (("postStart", container.post_start), ("preStop", container.pre_stop)):
        if isinstance(hook, ExecAction):
            sizes.words(hook.command, name)
    for probe in container.probes:
        if isinstance(probe.action, ExecAction):
            sizes.words(probe.action.command, f"{probe.kind}Probe")


def _check_amounts(resources: wire.ResourcesWire | None, where: str) -> None:
    """A cgroup would take a negative limit for none at all."""
    if resources is None:
        return
    for part, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        texts.at_most(_MOST_RESOURCES, tuple(amounts or ()), f"{where}.{part}")
        for name, amount in (amounts or {}).items():
            try:
                if amount is None or parse(str(amount)).sign >= 0:
                    continue
                why = f"`{texts.shown(amount)}` must be greater than or equal to 0"
            except QuantityError as error:
                why = quantity_advice(str(error), str(amount))
            except ValueError as error:
                why = str(error)
            raise ManifestError(f"{where}.{part}[{texts.shown(name)}]: {why}")


@frozen
class Refusal:
    """A document that a bare host cannot run. Of its containers `spec` has the names alone, for the status."""

    trouble: Trouble
    spec: PodSpec


def not_set_up(event: str, why: str) -> Trouble:
    """The host has it in principle, and could not provide it now."""
    return Trouble(_CREATING, why, event, why)


def not_mounted(volume: str, why: str) -> Trouble:
    """A volume could not be filled, in the words of a kubelet."""
    return Trouble(_CREATING, "", FAILED_MOUNT, f'MountVolume.SetUp failed for volume "{volume}" : {why}')


def not_configured(why: str) -> Trouble:
    """A variable refers to what is not there."""
    return Trouble(_MISCONFIGURED, why, FAILED, f"Error: {why}")


def no_image(error: ImageError) -> Trouble:
    """A container runtime could not provide an image, or may not fetch it."""
    image, why = error.image, str(error)
    if error.is_never_pulled:
        return Trouble(_NEVER_PULLED, why, _NEVER_PULLED, why, is_refusal=True)
    message = f'Back-off pulling image "{image}": ErrImagePull: {why}'
    return Trouble(_PULLING, message, FAILED, f'Failed to pull image "{image}": {why}', is_refusal=True)


def offer_for(offer: ImageOffer | None, *, is_boxed: bool) -> ImageOffer | None:
    """For a pod that was begun: it is one kind for all its life, whatever this agent is offered."""
    return (offer or ImageOffer()) if is_boxed else None


def read_spec(manifest: PodManifest, offer: ImageOffer | None = None) -> PodSpec | Refusal:
    """What to run, or why it cannot be run here."""
    try:
        return pod_spec(manifest.document, str(manifest.pod), offer)
    except ManifestError as error:
        return refusal_of(error, manifest)


def refusal_of(error: ManifestError, manifest: PodManifest) -> Refusal:
    """With a stand-in for each container that the document names."""
    pod = manifest.pod
    inits = tuple(ContainerSpec(each.name, (), is_init=True) for each in pod.init_containers)
    regulars = tuple(ContainerSpec(each.name, ()) for each in pod.containers)
    spec = manifest.document.get("spec")
    deadline = spec.get("activeDeadlineSeconds") if isinstance(spec, dict) else None
    is_deadline = isinstance(deadline, int) and 0 < deadline <= _LONGEST_DEADLINE
    known = PodSpec(regulars, inits, deadline_seconds=deadline if is_deadline else None)
    return Refusal(_trouble(error, str(pod)), known)


def _trouble(error: ManifestError, pod: str) -> Trouble:
    why = str(error).removeprefix(f"{pod}: ")
    if isinstance(error, ImageNeededError):
        return no_image(ImageError(error.image, why))
    if isinstance(error, VolumeNeededError):
        return Trouble(_MISCONFIGURED, why, FAILED_MOUNT, f"MountVolume.SetUp failed: {why}", is_refusal=True)
    return Trouble(_MISCONFIGURED, why, FAILED, f"Error: {why}", is_refusal=True)
