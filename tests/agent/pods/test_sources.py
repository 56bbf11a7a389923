"""Directories of manifests: what is wanted, what changed, and what a typing mistake may not do."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from jettison import events
from jettison.agent.pods.directories import ManifestDirectory
from jettison.agent.pods.readmission import Life
from jettison.agent.pods.sources import LastGood, Manifests, wanted_pods
from jettison.events import Fact
from jettison.runtimes.protocol import PodManifest

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  priorityClassName: {priority}
  containers: [{{name: main, command: [sleep, "60"]}}]
"""
CLASS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""


class Node:
    """A directory and what was said about it."""

    directories: ClassVar[list[ManifestDirectory]] = []

    def __init__(self, path: Path, *, is_static: bool = False) -> None:
        self.path = path
        self.said: list[Fact] = []
        self.directory = ManifestDirectory(path, self.said.append, is_static=is_static)
        self.directories.append(self.directory)
        self.good = LastGood()

    def write(self, name: str, text: str) -> None:
        # A new inode each time, as editors do: the size alone may not change.
        temporary = self.path / f".{name}.new"
        temporary.write_text(text)
        temporary.rename(self.path / name)

    def pods(self, lives: dict[str, Life] | None = None) -> dict[str, PodManifest]:
        asyncio.run(self.directory.look())
        found = wanted_pods([self.directory], lives or {}, self.said.append, self.good)
        return {manifest.pod.name: manifest for manifest in found.values()}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while Node.directories:
        Node.directories.pop().close()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_name_may_be_any_bytes(node: Node) -> None:
    """Its pods are wanted like others, and its mistakes are told."""
    for name, text in ((b"\xff.yaml", POD.format(name="a", priority='""')), (b"\xfe.yaml", "kind: [")):
        (Path(os.fsdecode(os.fsencode(node.path) + b"/" + name))).write_text(text)
    assert node.pods()["a"].origin.endswith("\\xff.yaml")
    assert len(node.said) == 1
    assert "\\xfe.yaml" in str(node.said)


def test_what_is_not_a_file_keeps_no_reader_waiting(node: Node) -> None:
    """Opening a pipe waits for a writer, and a device has no end; both are told once, and the others are read."""
    os.mkfifo(node.path / "pipe.yaml")
    (node.path / "endless.yaml").symlink_to("/dev/zero")
    node.write("pods.yaml", POD.format(name="a", priority='""'))
    assert set(node.pods()) == set(node.pods()) == {"a"}
    assert sorted(each.why for each in node.said if isinstance(each, events.ActionFailed)) == [
        f"{node.path}/endless.yaml: not a plain file",
        f"{node.path}/pipe.yaml: not a plain file",
    ]


def test_a_file_may_hold_pods_and_priority_classes(node: Node) -> None:
    """The priority of a class reaches the pod, also from another file."""
    node.write("classes.yaml", CLASS)
    node.write("pods.yaml", POD.format(name="a", priority="high") + "---" + POD.format(name="b", priority='""'))
    pods = node.pods()
    assert {name: each.pod.priority for name, each in pods.items()} == {"a": 1000, "b": 0}


def test_the_uid_follows_from_the_content(node: Node) -> None:
    """A restarted agent recognises its pods; a changed manifest is another pod; a second life is another pod, too."""
    node.write("a.yaml", POD.format(name="a", priority="system-node-critical"))
    first = node.pods()["a"].pod.uid
    again = Node(node.path).pods()["a"].pod.uid
    second_life = node.pods({"default/a": Life(1)})["a"].pod.uid
    node.write("a.yaml", POD.format(name="a", priority='""'))
    changed = node.pods()["a"].pod.uid
    assert first == again
    assert len({first, second_life, changed}) == 3


def test_static_pods_are_critical(tmp_path: Path) -> None:
    """Static in the kubelet's sense: never evicted, whatever their priority."""
    node = Node(tmp_path, is_static=True)
    node.write("a.yaml", POD.format(name="a", priority='""'))
    assert node.pods()["a"].pod.is_critical


def test_a_broken_file_leaves_its_pods_alone(node: Node) -> None:
    """A typing mistake must not stop what runs; it is reported once, with its line."""
    node.write("a.yaml", POD.format(name="a", priority='""'))
    before = node.pods()["a"].pod.uid
    node.write("a.yaml", "kind: Pod\nmetadata: {name: [\n")
    assert node.pods()["a"].pod.uid == before
    node.pods()
    assert len(node.said) == 1
    assert "a.yaml:3: did not find" in str(node.said[0])


def test_what_was_right_in_a_file_with_a_mistake_survives_the_next_mistake(node: Node) -> None:
    """There was no better version of it; the pod that could be started runs."""
    wrong = "---" + POD.format(name="b", priority="missing")
    node.write("a.yaml", wrong)
    assert not node.pods()
    node.write("a.yaml", POD.format(name="a", priority='""') + wrong)
    first = node.pods()["a"].pod.uid
    node.write("a.yaml", POD.format(name="a", priority="missing") + wrong)
    assert node.pods()["a"].pod.uid == first


def test_a_class_that_makes_no_sense_any_longer_changes_no_pod(node: Node) -> None:
    """Neither those that name it nor those for which it is the default."""
    node.write("classes.yaml", CLASS + "globalDefault: true\n")
    node.write("pods.yaml", POD.format(name="a", priority="high") + "---" + POD.format(name="b", priority='""'))
    before = {name: each.pod.uid for name, each in node.pods().items()}
    node.write("classes.yaml", CLASS.replace("1000", "many") + "globalDefault: true\n")
    assert {name: each.pod.uid for name, each in node.pods().items()} == before


def test_what_a_manifest_says_about_its_origin_and_its_lives_does_not_count(node: Node) -> None:
    """It would let a pod be taken for another one by the next agent."""
    text = POD.format(name="a", priority='""')
    forged = "metadata: {name: a, annotations: {jettison.dev/lives: '7', jettison.dev/manifest: x, mine: y}}"
    node.write("a.yaml", text.replace("metadata: {name: a}", forged))
    annotations = node.pods()["a"].document["metadata"]["annotations"]
    assert annotations == {"jettison.dev/manifest": f"{node.path}/a.yaml", "mine": "y"}


def test_what_a_manifest_says_about_its_status_does_not_count(node: Node) -> None:
    """A copy of a pod that Succeeded on another node would never be evicted from this one."""
    node.write("a.yaml", POD.format(name="a", priority='""') + "\nstatus: {phase: Succeeded}\n")
    found = node.pods()["a"]
    assert (found.pod.phase, "status" in found.document) == ("", False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Deployment\nmetadata: {name: x}", "expected one of Pod, PriorityClass, ConfigMap, Secret"),
        ("kind: Pod\nspec: {}", "no metadata.name"),
        ("kind: Pod\nmetadata: {name: x}", "no spec"),
        (POD.format(name="x", priority="missing"), "no PriorityClass `missing`"),
        ("kind: Pod\nmetadata: {name: x, uid: ../../etc}\nspec: {containers: []}", "not a name made of letters"),
        (
            "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, resources: {requests: {memory: 1K}}}]}",
            "memory",
        ),
        (
            "kind: Pod\nmetadata: {name: x}\nspec: {containers: [], ephemeralContainers: [{name: d}]}",
            "spec.ephemeralContainers: cannot be set on create",
        ),
        ("- just\n- a list", "has no kind"),
        ("kind: PriorityClass\nmetadata: {name: system-mine}\nvalue: 1", "are reserved"),
    ],
)
def test_what_makes_no_sense_is_said_and_left_out(node: Node, text: str, said: str) -> None:
    """Each mistake names itself, and the other pods are not affected."""
    node.write("bad.yaml", text)
    node.write("good.yaml", POD.format(name="good", priority='""'))
    assert list(node.pods()) == ["good"]
    assert any(said in str(fact) for fact in node.said)


def test_one_name_is_one_pod(node: Node) -> None:
    """Of two pods with one name the second is left out, and that is said."""
    node.write("a.yaml", POD.format(name="a", priority='""'))
    node.write("b.yaml", POD.format(name="a", priority="system-node-critical"))
    assert node.pods()["a"].origin.endswith("a.yaml")
    assert "is there twice" in str(node.said)


def test_what_is_wrong_is_said_once_and_again_when_it_comes_back(node: Node) -> None:
    """Another file that changes is no reason to repeat it."""
    manifests = Manifests([node.directory], node.said.append)
    node.write("a.yaml", POD.format(name="a", priority='""'))
    for number, name in enumerate(("a", "a", "b", "a")):
        node.write("b.yaml", POD.format(name=name, priority='""'))
        node.write("c.yaml", POD.format(name=f"c{number}", priority='""'))
        assert asyncio.run(manifests.look())
    assert str(node.said).count("is there twice") == 2


def test_a_removed_file_takes_its_pods_along(node: Node) -> None:
    """Nothing is wanted that was not written down."""
    node.write("a.yaml", POD.format(name="a", priority='""'))
    assert node.pods()
    (node.path / "a.yaml").unlink()
    assert not node.pods()


def test_a_directory_in_which_nothing_happens_is_not_looked_through(node: Node) -> None:
    """The kernel tells when something does, and of some things it does not tell: those are found a few looks later."""
    node.write("a.yaml", POD.format(name="a", priority='""'))
    looks = []

    def listing(found: dict[str, tuple[int, int, int] | None]) -> Iterator[None]:
        looks.append(found)
        return listed(found)

    listed, node.directory._listing = node.directory._listing, listing  # type: ignore[method-assign]
    for _ in range(9):
        assert set(node.pods()) == {"a"}
    assert len(looks) == 1
    os.utime(node.path / "a.yaml", ns=(0, 0))
    (node.path / "b.yaml").write_text(POD.format(name="b", priority='""'))
    assert set(node.pods()) == {"a", "b"}
    assert len(looks) == 2
    for _ in range(20):
        node.pods()
    assert len(looks) == 3


def test_a_directory_that_does_not_answer_holds_up_no_loop(node: Node) -> None:
    """As one on a network file system whose server is gone, or a link that leads there: the node went unguarded."""
    answers = threading.Event()

    def listing(found: dict[str, tuple[int, int, int] | None]) -> Iterator[None]:
        answers.wait()
        yield from (None for _ in found)

    async def look() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await node.directory.look()

    node.directory._listing = listing  # type: ignore[method-assign]
    late = threading.Timer(10, answers.set)
    late.start()
    asyncio.run(look())
    assert not answers.is_set()
    answers.set()
    late.cancel()


def test_another_directory_of_the_same_name_is_noticed(tmp_path: Path) -> None:
    """Also where the name is a link, as a new version of a whole directory is put in place."""
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "manifests"
    for path in (first, second):
        path.mkdir()
        (path / "pod.yaml").write_text(POD.format(name=path.name, priority='""'))
    link.symlink_to(first)
    node = Node(link)
    assert set(node.pods()) == set(node.pods()) == {"first"}
    link.unlink()
    link.symlink_to(second)
    assert set(node.pods()) == set(node.pods()) == {"second"}
    (second / "pod.yaml").write_text(POD.format(name="third", priority='""'))
    assert set(node.pods()) == {"third"}


def test_a_manifest_behind_a_link_is_looked_at_every_time(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text(POD.format(name="a", priority='""'))
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "pod.yaml").symlink_to(target)
    node = Node(tmp_path / "manifests")
    assert set(node.pods()) == set(node.pods()) == {"a"}
    target.write_text(POD.format(name="other", priority='""'))
    assert set(node.pods()) == {"other"}


def test_a_missing_directory_is_said_once(tmp_path: Path) -> None:
    """It may appear later; until then one line is enough."""
    node = Node(tmp_path / "later")
    node.pods()
    node.pods()
    assert len(node.said) == 1


def test_limits_become_requests(node: Node) -> None:
    """As the API of a cluster would default it: a pod with limits alone is Guaranteed; a request of its own stays."""
    limited = POD.format(name="a", priority='""').replace("main,", "main, resources: {limits: {cpu: 1, memory: 64Mi}},")
    node.write("a.yaml", limited)
    node.write("b.yaml", limited.replace("name: a", "name: b").replace("}},", "}, requests: {memory: 32Mi}},"))
    pods = node.pods()
    assert {name: each.pod.qos for name, each in pods.items()} == {"a": "Guaranteed", "b": "Burstable"}
    assert str(pods["b"].pod.memory_request) == "32Mi"
