"""Files, drop-ins and flags in the kubelet's order (spec §1.3, §1.4, §16 examples 9 and 10)."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.config.kubelet_config import NO_HARD_THRESHOLDS, Source, assemble, merge_patch, to_document
from jettison.engine.config.kubelet_fields import BY_FLAG, DEFAULT_EVICTION_HARD, FIELDS, KubeletConfig
from jettison.engine.numbers.durations import MINUTE_NS, SECOND_NS
from jettison.errors import PolicyError
from tests.builders import document

ONE = {"memory.available": "200Mi"}
INT32 = "a whole number from -2147483648 to 2147483647"
OTHERS = {name: text for name, text in DEFAULT_EVICTION_HARD.items() if name != "memory.available"}


def load(*flags: tuple[str, str], **fields: Any) -> KubeletConfig:
    return assemble(Source("file", document(**fields)), flags=flags)


def complaints(file: object = None, drop_ins: tuple[object, ...] = (), *flags: tuple[str, str]) -> list[str]:
    with pytest.raises(PolicyError) as refusal:
        assemble(
            None if file is None else Source("file", file),
            [Source(f"{number}.conf", each) for number, each in enumerate(drop_ins)],
            flags,
        )
    return [f"{each.origin}: {each.text}" for each in refusal.value.complaints]


def test_without_a_file_there_are_no_hard_thresholds() -> None:
    """Since 1.26. It surprises people, so it comes with a warning; an explicit flag ends it."""
    config = assemble()
    assert config.eviction_hard is None
    assert config.warnings == (NO_HARD_THRESHOLDS,)
    assert assemble(flags=[("--eviction-hard", "")]).warnings == ()


@pytest.mark.parametrize(
    ("fields", "hard"),
    [
        ({}, DEFAULT_EVICTION_HARD),
        ({"evictionHard": None}, DEFAULT_EVICTION_HARD),
        ({"evictionHard": {}}, {}),
        ({"evictionHard": ONE}, ONE),
        ({"evictionHard": ONE, "mergeDefaultEvictionSettings": True}, ONE | OTHERS),
        ({"evictionHard": {}, "mergeDefaultEvictionSettings": True}, DEFAULT_EVICTION_HARD),
    ],
)
def test_what_a_file_makes_of_the_hard_thresholds(fields: dict[str, Any], hard: dict[str, str]) -> None:
    """Absent means the defaults, present means exactly that, and the merge flag fills what is not named."""
    assert load(**fields).eviction_hard == hard


def test_a_drop_in_adds_to_the_files_defaults() -> None:
    """The same line in the file would have replaced them."""
    drop_in = Source("10.conf", document(evictionHard=ONE))
    assert assemble(Source("file", document()), [drop_in]).eviction_hard == ONE | OTHERS
    assert assemble(None, [drop_in]).eviction_hard == ONE


def test_null_in_a_drop_in_deletes() -> None:
    """And the merge flag inside a drop-in comes too late to bring anything back."""
    drop_in = document(evictionHard={"memory.available": None}, mergeDefaultEvictionSettings=True)
    config = assemble(Source("file", document(evictionHard=ONE)), [Source("10.conf", drop_in)])
    assert config.eviction_hard == {}
    assert config.merge_default_eviction_settings is True


def test_drop_ins_apply_in_order_and_defaults_fill_again() -> None:
    """The last one wins; a field set to null falls back to its default."""
    first = Source("1.conf", document(maxPods=10, imageMinimumGCAge="5m"))
    second = Source("2.conf", document(maxPods=20, imageMinimumGCAge=None))
    config = assemble(Source("file", document(maxPods=5)), [first, second])
    assert (config.max_pods, config.image_minimum_gc_age) == (20, 2 * MINUTE_NS)
    assert config.origins["maxPods"] == "2.conf"


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("memory.available<1Gi,,nodefs.available < 10% ", {"memory.available": "1Gi", "nodefs.available": "10%"}),
        ("", {}),
        ("memory.available<<1Gi", {"memory.available": "<1Gi"}),
        ("memory.available<1Gi,memory.available<2Gi", {"memory.available": "2Gi"}),
        ("memory.available<", {"memory.available": ""}),
    ],
)
def test_the_map_syntax_of_flags(text: str, pairs: dict[str, str]) -> None:
    """Split at commas, then at the first separator, both halves trimmed; the last of equal keys wins."""
    assert load(("eviction-hard", text)).eviction_hard == pairs


def test_a_map_flag_replaces_the_map_and_adds_to_itself() -> None:
    """The first occurrence clears what files said, further ones add."""
    config = load(("--eviction-hard", "pid.available<5%"), ("--eviction_hard", "nodefs.available<1Gi"))
    assert config.eviction_hard == {"pid.available": "5%", "nodefs.available": "1Gi"}
    assert config.origins["evictionHard.pid.available"] == "--eviction-hard"
    listed = load(("enforce-node-allocatable", "pods,kube-reserved"), ("enforce-node-allocatable", "none"))
    assert listed.enforce_node_allocatable == ("pods", "kube-reserved", "none")


@pytest.mark.parametrize(
    ("flag", "text", "complaint"),
    [
        ("eviction-hard", "memory.available=1Gi", "malformed pair, expect string<string"),
        ("system-reserved", "memory<1Gi", "malformed pair, expect string=string"),
        ("max-pods", "many", 'strconv.ParseInt: parsing "many": invalid syntax'),
        ("kernel-memcg-notification", "yes", 'strconv.ParseBool: parsing "yes": invalid syntax'),
        ("minimum-image-ttl-duration", "5", 'time: missing unit in duration "5"'),
    ],
)
def test_a_bad_flag_is_named_with_its_value(flag: str, text: str, complaint: str) -> None:
    """As the kubelet's own command line says it."""
    said = f'--{flag}: invalid argument "{text}" for "--{flag}" flag: {complaint}'
    assert complaints(document(), (), (flag, text)) == [said]


def test_an_unknown_flag() -> None:
    """The rest of the command line is still looked at."""
    assert complaints(None, (), ("eviction-harder", "1"), ("max-pods", "x")) == [
        '--max-pods: invalid argument "x" for "--max-pods" flag: strconv.ParseInt: parsing "x": invalid syntax',
        "flags: unknown flag: --eviction-harder",
    ]


@pytest.mark.parametrize(
    ("key", "flag", "attribute", "default"),
    [
        ("evictionPressureTransitionPeriod", "eviction-pressure-transition-period", None, 5 * MINUTE_NS),
        ("imageMinimumGCAge", "minimum-image-ttl-duration", "image_minimum_gc_age", 2 * MINUTE_NS),
        ("volumeStatsAggPeriod", "volume-stats-agg-period", "volume_stats_period", MINUTE_NS),
    ],
)
def test_zero_in_a_file_is_unset_and_zero_as_a_flag_is_zero(
    key: str, flag: str, attribute: str | None, default: int
) -> None:
    """A transition period of zero by flag really hides every condition."""
    name = attribute or flag.replace("-", "_")
    assert getattr(load(**{key: "0s"}), name) == default
    assert getattr(load((flag, "0s")), name) == 0


def test_negative_pid_limits_all_mean_unlimited() -> None:
    """In a file; and no default fills the longest grace, 0 stays 0."""
    assert load(podPidsLimit=-5).pod_pids_limit == -1
    assert load().pod_pids_limit == -1
    assert load(evictionMaxPodGracePeriod=0).eviction_max_pod_grace_period == 0


@pytest.mark.parametrize(
    ("fields", "report"),
    [
        ({}, 5 * MINUTE_NS),
        ({"nodeStatusUpdateFrequency": "20s"}, 20 * SECOND_NS),
        ({"nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "1m"}, MINUTE_NS),
    ],
)
def test_a_node_that_updates_often_reports_as_often(fields: dict[str, str], report: int) -> None:
    """Unless it is said otherwise."""
    assert load(**fields).node_status_report_frequency == report


@pytest.mark.parametrize("wish", [None, True, False])
def test_killing_a_container_as_a_whole_is_three_answers(wish: bool | None) -> None:
    """Nothing said is not the same as false: it depends on the cgroup version then."""
    config = load() if wish is None else load(singleProcessOOMKill=wish)
    assert config.single_process_oom_kill is wish
    assert to_document(config).get("singleProcessOOMKill") is wish


def test_origins_tell_which_source_set_what() -> None:
    """Entry by entry where it is a map, so that each threshold can be shown with its source."""
    drop_in = Source("20.conf", document(evictionHard={"pid.available": "5%"}))
    config = assemble(Source("kubelet.yaml", document(maxPods=7)), [drop_in], [("max-pods", "9")])
    assert config.origins["evictionHard.pid.available"] == "20.conf"
    assert config.origins["evictionHard.memory.available"] == "default"
    assert config.origins["maxPods"] == "--max-pods"
    assert "evictionSoft" not in config.origins


def test_a_field_in_the_wrong_case_is_ignored() -> None:
    """As a kubelet does; `manifests.config_files` says so."""
    config = load(evictionhard={"memory.available": "1Gi"}, unheardOf=1)
    assert config.eviction_hard == DEFAULT_EVICTION_HARD
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        ([], "file: the document is a list, expected a KubeletConfiguration object"),
        ("text", "file: the document is a text, expected a KubeletConfiguration object"),
        ({}, "file: apiVersion is missing, expected `kubelet.config.k8s.io/v1beta1`"),
        ({"apiVersion": "v1"}, "file: apiVersion is `'v1'`, expected `kubelet.config.k8s.io/v1beta1`"),
        (document(kind="Pod"), "file: kind is `'Pod'`, expected `KubeletConfiguration`"),
        (document() | {7: 1}, "file: the key `7` is not a string: put it in quotes"),
        (document(maxPods="5"), f"file: maxPods: is `'5'`, expected {INT32}"),
        (document(maxPods=2**31), f"file: maxPods: is `2147483648`, expected {INT32}"),
        (document(maxPods=True), f"file: maxPods: is `True`, expected {INT32}"),
        (document(failCgroupV1="yes"), "file: failCgroupV1: is `'yes'`, expected true or false"),
        (document(cgroupRoot=1), "file: cgroupRoot: is `1`, expected a string"),
        (document(evictionHard=[]), "file: evictionHard: is `[]`, expected a map"),
        (document(imageMaximumGCAge=5), "file: imageMaximumGCAge: is `5`, expected a duration such as `5m`"),
        (document(imageMaximumGCAge="5"), 'file: imageMaximumGCAge: time: missing unit in duration "5"'),
        (
            document(enforceNodeAllocatable="pods"),
            "file: enforceNodeAllocatable: is `'pods'`, expected a list of strings",
        ),
        (
            document(evictionHard={"memory.available": 100}),
            "file: evictionHard: `memory.available` is `100`, expected a string: put it in quotes",
        ),
    ],
)
def test_a_document_of_the_wrong_shape(file: object, complaint: str) -> None:
    """Which field, which value, what is allowed; never a traceback."""
    assert complaints(file) == [complaint]


def test_a_drop_in_must_say_what_it_is() -> None:
    """apiVersion and kind are asked of every document."""
    assert complaints(document(), ({"maxPods": 5},)) == [
        "0.conf: apiVersion is missing, expected `kubelet.config.k8s.io/v1beta1`"
    ]


def test_null_is_nothing_but_a_duration_that_is_null_is_refused() -> None:
    """A field without a value in YAML. Kubernetes reads such a duration, map entry or list item as an empty text."""
    assert load(maxPods=None, evictionSoft=None, cgroupsPerQOS=None) == load()
    assert complaints(document(imageMaximumGCAge=None)) == ['file: imageMaximumGCAge: time: invalid duration ""']
    assert load(evictionHard={"memory.available": None}).eviction_hard == {"memory.available": ""}
    assert load(enforceNodeAllocatable=["pods", None]).enforce_node_allocatable == ("pods", "")


def test_a_drop_in_may_take_a_duration_back() -> None:
    """Null deletes it before it is read."""
    base = document(imageMaximumGCAge="36h")
    assert (
        assemble(Source("file", base), [Source("0.conf", document(imageMaximumGCAge=None))]).image_maximum_gc_age == 0
    )


def test_every_mistake_is_said_sorted_by_source_and_field() -> None:
    """One round to mend them all."""
    said = complaints(document(maxPods="a", cgroupRoot=1), (), ("oom-score-adj", "b"))
    assert [text.split(": ")[0:2] for text in said] == [
        ["--oom-score-adj", 'invalid argument "b" for "--oom-score-adj" flag'],
        ["file", "cgroupRoot"],
        ["file", "maxPods"],
    ]


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        ({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, "text", "text"),
        ("text", {"a": 1}, {"a": 1}),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_merge_patches_follow_rfc_7386(target: object, patch: object, merged: object) -> None:
    """Maps merge, null deletes, everything else replaces."""
    assert merge_patch(target, patch) == merged


def test_a_printed_configuration_reads_back_the_same() -> None:
    """Maps that were not set stay unset, which is not the same as empty."""
    config = load(evictionSoft={"memory.available": "1Gi"}, imageMaximumGCAge="36h", enforceNodeAllocatable=["none"])
    again = assemble(Source("printed", to_document(config)))
    assert again == config
    assert again.kube_reserved is None


def test_the_table_has_a_row_for_every_attribute() -> None:
    """Reading, printing and flags all follow the table, so a forgotten row would be a silently ignored setting."""
    attributes = set(KubeletConfig.__dataclass_fields__) - {"origins", "warnings"}
    assert {row.attribute for row in FIELDS} == attributes
    assert all(row.key or row.flag for row in FIELDS)
    assert BY_FLAG["reserved-cpus"].key == "reservedSystemCPUs"
