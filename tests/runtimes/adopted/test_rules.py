"""The operator has the first word on what a workload is worth, its labels the second, the shipped list the last."""

from __future__ import annotations

from pathlib import Path

import pytest

from jettison.engine.numbers.quantity import parse
from jettison.errors import InputError
from jettison.runtimes.adopted.rules import GuardRules, Stop, Terms, label_terms
from jettison.runtimes.adopted.rules_file import SHIPPED, parse_rules, read_rules, shipped_rules
from jettison.runtimes.workloads import AdoptedWorkload

WEB = AdoptedWorkload("docker", "1" * 64, "shop-web-1", "docker/111", {"tier": "front"}, "nginx:1.27")


def service(name: str) -> AdoptedWorkload:
    return AdoptedWorkload("cgroup", "cgroup-1", name, f"system.slice/{name}")


@pytest.mark.parametrize(
    ("match", "is_about_it"),
    [
        ("{name: 'shop-*'}", True),
        ("{name: web}", False),
        ("{label: 'tier=front'}", True),
        ("{label: 'tier=*', name: '*-2'}", False),
        ("{label: 'other=*'}", False),
        ("{image: 'nginx:*', kind: docker}", True),
        ("{cgroup: 'docker/*'}", True),
        ("{kind: podman}", False),
    ],
)
def test_all_patterns_of_a_rule_must_match(match: str, *, is_about_it: bool) -> None:
    """A pattern is a shell's."""
    rules = parse_rules(f"rules: [{{match: {match}, priority: 7}}]", "r")
    assert (rules.terms(WEB).priority == 7) is is_about_it


def test_what_the_first_matching_rule_leaves_open_the_next_may_say() -> None:
    """So a general rule can stand behind special ones."""
    rules = parse_rules(
        """
        rules:
        - {match: {name: shop-web-1}, priority: 100}
        - {match: {name: 'shop-*'}, priority: 1, requests: {memory: 200Mi}, stop: cgroup}
        """,
        "r",
    )
    assert rules.terms(WEB) == Terms(100, {"memory": parse("200Mi")}, None, Stop.CGROUP)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rules: [{match: {nmae: x}}]", "rules[0].match: unknown field `nmae`, did you mean `name`?"),
        ("rule: []", "unknown field `rule`, did you mean `rules`?"),
        ("rules: [{match: {name: x}, priority: high}]", "priority is 'high', expected a number from -2147483648 to"),
        ("rules: [{match: {name: x}, priority: 2000000000}]", "`protect: true` spares for good"),
        ("rules: [{match: {name: x}, protect: yes please}]", "protect is 'yes please', expected true or false"),
        ("rules: [{match: {name: x}, stop: kill}]", "stop is 'kill', expected container, unit, cgroup"),
        ("rules: [{match: {name: x}, requests: {memory: 512MB}}]", "write 512M or 512Mi"),
        ("rules: [{match: {name: x}, requests: {memory: -1}}]", "expected 0 or more"),
        ("rules: [{match: {}}]", "match is empty"),
        ("rules: [{match: {label: tier}}]", "expected `KEY=VALUE`"),
        ("rules: {}", "rules is {}, expected a list"),
        ("rules: [3]", "rules[0] is 3, expected an object with match, priority"),
        ("cgroups: [../x]", "expected a path such as `system.slice/*.service`"),
        ("cgroups: [3]", "cgroups[0] is 3"),
        ("a: 1\n---\nb: 1", "2 documents, expected one"),
        ("rules: [", "r:2:"),
        ("rules: [" + "{match: {name: x}}," * 1001 + "]", "1001 rules, at most 1000 are allowed"),
    ],
)
def test_a_mistake_names_the_place_and_what_is_allowed(text: str, complaint: str) -> None:
    """Which rule, which value."""
    with pytest.raises(InputError) as raised:
        parse_rules(text, "r")
    assert complaint in str(raised.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\0"])
def test_a_file_of_any_bytes_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    """And so is one that is not there."""
    path = tmp_path / "rules.yaml"
    with pytest.raises(InputError, match=r"rules\.yaml.*no such file"):
        read_rules(path)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"rules\.yaml"):
        read_rules(path)


def test_labels_say_the_same_as_rules() -> None:
    """All of them texts."""
    labels = {
        "jettison.dev/priority": "-5",
        "jettison.dev/memory-request": "64Mi",
        "jettison.dev/storage-request": "1Gi",
        "jettison.dev/protect": "true",
        "jettison.dev/stop": "container",
        "unrelated": "x",
    }
    requests = {"memory": parse("64Mi"), "ephemeral-storage": parse("1Gi")}
    assert label_terms(labels) == (Terms(-5, requests, True, Stop.CONTAINER), ())


@pytest.mark.parametrize(
    ("label", "value", "complaint"),
    [
        ("jettison.dev/priority", "9" * 400, "priority is '9999"),
        ("jettison.dev/priority", "१", "priority is '१'"),
        ("jettison.dev/protect", "yes", "expected true or false"),
        ("jettison.dev/memory-request", "64MB", "write 64M or 64Mi"),
        ("jettison.dev/pirority", "1", "did you mean `jettison.dev/priority`?"),
    ],
)
def test_a_label_that_makes_no_sense_is_left_out_and_told(label: str, value: str, complaint: str) -> None:
    """The other labels of the container count."""
    terms, complaints = label_terms({label: value, "jettison.dev/stop": "cgroup"})
    assert terms == Terms(stop=Stop.CGROUP)
    assert len(complaints) == 1
    assert complaint in complaints[0]


@pytest.mark.parametrize(
    "name",
    ["ssh.service", "sshd.service", "dbus.service", "systemd-journald.service", "docker.service", "containerd.service",
     "jettison.service", "kubelet.service"],
)  # fmt: skip
def test_what_the_machine_needs_is_protected(name: str) -> None:
    """Without a rule of the operator."""
    assert shipped_rules().terms(service(name)).is_protected is True


@pytest.mark.parametrize(
    "cgroup", ["jettison/n1/kubepods/podu/abc", "jettison.slice/jettison-n1.slice/jettison-n1-kubepods.slice/x.scope"]
)
def test_pods_of_our_own_nodes_are_left_to_their_agent(cgroup: str) -> None:
    """With either cgroup driver."""
    workload = AdoptedWorkload("cri", "abc", "c", cgroup)
    assert shipped_rules().terms(workload).is_protected is True


def test_what_the_machine_does_not_need_is_not_protected() -> None:
    """The list is short on purpose."""
    assert shipped_rules().terms(service("postgresql.service")) == Terms()
    assert parse_rules(SHIPPED, "s") == shipped_rules()
    assert GuardRules().terms(WEB) == Terms()
