"""KubeletConfiguration, as far as eviction reads it: THE table of fields (spec §1.1).

One row names a field's key in a file, its flag, its type and its default. Reading, printing, flags and help all follow
the table, so a new field is a row here, an attribute of `KubeletConfig`, and the code that reads the attribute. A field
that no code reads has a sentence in `unheeded` instead, which `jettison up` and `config check` say to an operator that
sets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from jettison.engine.numbers.durations import MINUTE_NS, SECOND_NS
from jettison.values import frozen

API_VERSION = "kubelet.config.k8s.io/v1beta1"
KIND = "KubeletConfiguration"

DEFAULT_EVICTION_HARD: Mapping[str, str] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


class Kind(Enum):
    """How a field is written in a file and as a flag."""

    THRESHOLDS = "map, flag text `k<v,k<v`"
    PAIRS = "map, flag text `k=v,k=v`"
    DURATION = "duration"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    TEXT = "string"
    TEXTS = "list of strings"


@frozen
class Field:
    """One row: the attribute of `KubeletConfig`, its key in a file, its flag, and how to read it."""

    attribute: str
    key: str | None
    flag: str | None
    kind: Kind
    default: Any = None
    # In a file, zero is "not set" for some fields; as a flag, zero is zero.
    zero_is_unset: bool = False
    meaning: str = ""
    # Why a node of ours does not do what the field asks for; empty where it does.
    unheeded: str = ""
    # The value that a node of ours acts by, where that is not the default.
    ours: Any = None

    @property
    def acted_by(self) -> Any:
        """With an unheeded field at this value there is nothing to warn about."""
        return self.default if self.ours is None else self.ours


_NOT_LIMITED = "no limit is set on this cgroup; the reservation itself is kept back from pods"

FIELDS: tuple[Field, ...] = (
    Field("eviction_hard", "evictionHard", "eviction-hard", Kind.THRESHOLDS, meaning="hard thresholds"),
    Field("eviction_soft", "evictionSoft", "eviction-soft", Kind.THRESHOLDS, meaning="soft thresholds"),
    Field(
        "eviction_soft_grace_period",
        "evictionSoftGracePeriod",
        "eviction-soft-grace-period",
        Kind.PAIRS,
        meaning="how long each soft threshold may be crossed before a pod goes",
    ),
    Field(
        "eviction_max_pod_grace_period",
        "evictionMaxPodGracePeriod",
        "eviction-max-pod-grace-period",
        Kind.INT32,
        0,
        meaning="longest termination time in seconds for a soft eviction",
    ),
    Field(
        "eviction_minimum_reclaim",
        "evictionMinimumReclaim",
        "eviction-minimum-reclaim",
        Kind.PAIRS,
        meaning="what must be free beyond a threshold before it counts as resolved",
    ),
    Field(
        "eviction_pressure_transition_period",
        "evictionPressureTransitionPeriod",
        "eviction-pressure-transition-period",
        Kind.DURATION,
        5 * MINUTE_NS,
        zero_is_unset=True,
        meaning="how long a condition outlives its last observation",
    ),
    Field("merge_default_eviction_settings", "mergeDefaultEvictionSettings", None, Kind.BOOL, False),
    Field(
        "kernel_memcg_notification",
        "kernelMemcgNotification",
        "kernel-memcg-notification",
        Kind.BOOL,
        False,
        unheeded="the kernel's alarms are always used where the kernel has them",
        ours=True,
    ),
    Field("system_reserved", "systemReserved", "system-reserved", Kind.PAIRS, meaning="kept for the system's daemons"),
    Field("kube_reserved", "kubeReserved", "kube-reserved", Kind.PAIRS, meaning="kept for Kubernetes' own daemons"),
    Field(
        "system_reserved_cgroup",
        "systemReservedCgroup",
        "system-reserved-cgroup",
        Kind.TEXT,
        "",
        unheeded=_NOT_LIMITED,
    ),
    Field("kube_reserved_cgroup", "kubeReservedCgroup", "kube-reserved-cgroup", Kind.TEXT, "", unheeded=_NOT_LIMITED),
    Field(
        "enforce_node_allocatable",
        "enforceNodeAllocatable",
        "enforce-node-allocatable",
        Kind.TEXTS,
        ("pods",),
        meaning="which reservations become cgroup limits",
    ),
    Field("reserved_system_cpus", "reservedSystemCPUs", "reserved-cpus", Kind.TEXT, ""),
    Field("cgroups_per_qos", "cgroupsPerQOS", "cgroups-per-qos", Kind.BOOL, True),
    Field(
        "cgroup_root",
        "cgroupRoot",
        "cgroup-root",
        Kind.TEXT,
        "",
        unheeded="the node's cgroup is named by --cgroup-name",
    ),
    Field(
        "cgroup_driver",
        "cgroupDriver",
        "cgroup-driver",
        Kind.TEXT,
        "cgroupfs",
        zero_is_unset=True,
    ),
    Field(
        "image_gc_high_threshold",
        "imageGCHighThresholdPercent",
        "image-gc-high-threshold",
        Kind.INT32,
        85,
    ),
    Field(
        "image_gc_low_threshold",
        "imageGCLowThresholdPercent",
        "image-gc-low-threshold",
        Kind.INT32,
        80,
    ),
    Field(
        "image_minimum_gc_age",
        "imageMinimumGCAge",
        "minimum-image-ttl-duration",
        Kind.DURATION,
        2 * MINUTE_NS,
        zero_is_unset=True,
    ),
    Field("image_maximum_gc_age", "imageMaximumGCAge", None, Kind.DURATION, 0),
    Field("minimum_container_ttl", None, "minimum-container-ttl-duration", Kind.DURATION, 0),
    Field("maximum_dead_containers_per_container", None, "maximum-dead-containers-per-container", Kind.INT32, 1),
    Field("maximum_dead_containers", None, "maximum-dead-containers", Kind.INT32, -1),
    Field(
        "allocatable_ignore_eviction",
        None,
        "experimental-allocatable-ignore-eviction",
        Kind.BOOL,
        False,
        meaning="do not subtract hard thresholds from allocatable",
    ),
    Field("pod_pids_limit", "podPidsLimit", "pod-max-pids", Kind.INT64, -1),
    Field(
        "local_storage_capacity_isolation",
        "localStorageCapacityIsolation",
        "local-storage-capacity-isolation",
        Kind.BOOL,
        True,
    ),
    Field(
        "node_status_update_frequency",
        "nodeStatusUpdateFrequency",
        "node-status-update-frequency",
        Kind.DURATION,
        10 * SECOND_NS,
        zero_is_unset=True,
    ),
    Field(
        "node_status_report_frequency",
        "nodeStatusReportFrequency",
        None,
        Kind.DURATION,
        5 * MINUTE_NS,
        zero_is_unset=True,
    ),
    Field("sync_frequency", "syncFrequency", "sync-frequency", Kind.DURATION, MINUTE_NS, zero_is_unset=True),
    Field(
        "volume_stats_period",
        "volumeStatsAggPeriod",
        "volume-stats-agg-period",
        Kind.DURATION,
        MINUTE_NS,
        zero_is_unset=True,
    ),
    Field("node_status_max_images", "nodeStatusMaxImages", "node-status-max-images", Kind.INT32, 50),
    Field("max_pods", "maxPods", "max-pods", Kind.INT32, 110, zero_is_unset=True),
    Field("pods_per_core", "podsPerCore", "pods-per-core", Kind.INT32, 0),
    Field(
        "fail_cgroup_v1",
        "failCgroupV1",
        "fail-cgroupv1",
        Kind.BOOL,
        True,
        unheeded="a node of ours starts on cgroup v1, too",
        ours=False,
    ),
    # None: the kernel kills a container as a whole where it can, which takes cgroup v2.
    Field("single_process_oom_kill", "singleProcessOOMKill", None, Kind.BOOL),
    Field("oom_score_adj", "oomScoreAdj", "oom-score-adj", Kind.INT32, -999),
    Field(
        "pod_logs_dir",
        "podLogsDir",
        None,
        Kind.TEXT,
        "/var/log/pods",
        zero_is_unset=True,
        unheeded="logs are kept below --state-dir",
    ),
    Field(
        "root_dir",
        None,
        "root-dir",
        Kind.TEXT,
        "/var/lib/kubelet",
        unheeded="a node of ours keeps its files below --state-dir and --node-dir",
    ),
    Field(
        "housekeeping_interval",
        None,
        "housekeeping-interval",
        Kind.DURATION,
        10 * SECOND_NS,
        unheeded="everything but disks is read anew at every look",
    ),
)

ALL_KEYS = frozenset(
    """
address allowedUnsafeSysctls apiVersion authentication authorization cgroupDriver cgroupRoot cgroupsPerQOS
clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles containerLogMaxSize
containerLogMaxWorkers containerLogMonitorInterval containerRuntimeEndpoint contentType cpuCFSQuota
cpuCFSQuotaPeriod cpuManagerPolicy cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff
defaultPodSysctls enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler
enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery
enforceNodeAllocatable eventBurst eventRecordQPS evictionHard evictionMaxPodGracePeriod evictionMinimumReclaim
evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod failCgroupV1 failSwapOn featureGates
fileCheckFrequency hairpinMode healthzBindAddress healthzPort httpCheckFrequency imageGCHighThresholdPercent
imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge imagePullCredentialsVerificationPolicy
imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit kernelMemcgNotification kind kubeAPIBurst kubeAPIQPS
kubeReserved kubeReservedCgroup kubeletCgroups localStorageCapacityIsolation logging makeIPTablesUtilChains
maxOpenFiles maxParallelImagePulls maxPods memoryManagerPolicy memoryReservationPolicy memorySwap
memoryThrottlingFactor mergeDefaultEvictionSettings nodeLeaseDurationSeconds nodeStatusMaxImages
nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podPidsLimit podsPerCore port
preloadedImagesVerificationAllowlist protectKernelDefaults providerID qosReserved readOnlyPort registerNode
registerWithTaints registryBurst registryPullQPS reservedMemory reservedSystemCPUs resolvConf rotateCertificates
runOnce runtimeRequestTimeout seccompDefault serializeImagePulls serverTLSBootstrap showHiddenMetricsForVersion
shutdownGracePeriod shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods singleProcessOOMKill
staticPodPath staticPodURL staticPodURLHeader streamingConnectionIdleTimeout syncFrequency systemCgroups
systemReserved systemReservedCgroup tlsCertFile tlsCipherSuites tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile
topologyManagerPolicy topologyManagerPolicyOptions topologyManagerScope tracing userNamespaces volumePluginDir
volumeStatsAggPeriod
""".split()  # noqa: SIM905  a hundred lines of one word each would hide the table below
)
"""Every field that a KubeletConfiguration has, also those that have nothing to do with eviction."""

Shape = Mapping[str, Any]
"""Field names to the shapes below them; empty where any name goes, or where nothing is below."""

_ANY: Shape = {}
_ENABLED = {"enabled": _ANY}
_BUFFERED = {"splitStream": _ANY, "infoBufferSize": _ANY}

NESTED: Mapping[str, Shape] = {
    "authentication": {
        "x509": {"clientCAFile": _ANY},
        "webhook": {**_ENABLED, "cacheTTL": _ANY},
        "anonymous": _ENABLED,
    },
    "authorization": {"mode": _ANY, "webhook": {"cacheAuthorizedTTL": _ANY, "cacheUnauthorizedTTL": _ANY}},
    "crashLoopBackOff": {"maxContainerRestartPeriod": _ANY},
    "logging": {
        "format": _ANY,
        "flushFrequency": _ANY,
        "verbosity": _ANY,
        "vmodule": {"filePattern": _ANY, "verbosity": _ANY},
        "options": {"text": _BUFFERED, "json": _BUFFERED},
    },
    "memorySwap": {"swapBehavior": _ANY},
    "registerWithTaints": {"key": _ANY, "value": _ANY, "effect": _ANY, "timeAdded": _ANY},
    "reservedMemory": {"numaNode": _ANY, "limits": _ANY},
    "shutdownGracePeriodByPodPriority": {"priority": _ANY, "shutdownGracePeriodSeconds": _ANY},
    "tracing": {"endpoint": _ANY, "samplingRatePerMillion": _ANY},
    "userNamespaces": {"idsPerPod": _ANY},
}
"""What is below the fields that hold structures; of a list, what is in each of its elements."""

FIELD_NAMES: Shape = {key: NESTED.get(key, _ANY) for key in ALL_KEYS}

BY_KEY = {row.key: row for row in FIELDS if row.key is not None}
BY_FLAG = {row.flag: row for row in FIELDS if row.flag is not None}

TextMap = Mapping[str, str]


@frozen
class KubeletConfig:
    """Effective values. A map is None when no source set it, which is not the same as empty."""

    eviction_hard: TextMap | None
    eviction_soft: TextMap | None
    eviction_soft_grace_period: TextMap | None
    eviction_max_pod_grace_period: int
    eviction_minimum_reclaim: TextMap | None
    eviction_pressure_transition_period: int
    merge_default_eviction_settings: bool
    kernel_memcg_notification: bool
    system_reserved: TextMap | None
    kube_reserved: TextMap | None
    system_reserved_cgroup: str
    kube_reserved_cgroup: str
    enforce_node_allocatable: tuple[str, ...]
    reserved_system_cpus: str
    cgroups_per_qos: bool
    cgroup_root: str
    cgroup_driver: str
    image_gc_high_threshold: int
    image_gc_low_threshold: int
    image_minimum_gc_age: int
    image_maximum_gc_age: int
    minimum_container_ttl: int
    maximum_dead_containers_per_container: int
    maximum_dead_containers: int
    allocatable_ignore_eviction: bool
    pod_pids_limit: int
    local_storage_capacity_isolation: bool
    node_status_update_frequency: int
    node_status_report_frequency: int
    sync_frequency: int
    volume_stats_period: int
    node_status_max_images: int
    max_pods: int
    pods_per_core: int
    fail_cgroup_v1: bool
    single_process_oom_kill: bool | None
    oom_score_adj: int
    pod_logs_dir: str
    root_dir: str
    housekeeping_interval: int
    # Which source set a key ("evictionHard.memory.available"), for those that are not built-in defaults.
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
