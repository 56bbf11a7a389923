"""`jettison events` against a real node: what a kubelet would have posted, on a host without a cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from tests.cli.guarded import Guarded


def test_what_happened_is_listed_with_the_kubelets_reasons(guarded: Guarded) -> None:
    done = guarded.run("events")

    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split("  ")[0] == "LAST SEEN"
    rows = [line.split() for line in lines]
    assert any("Evicted" in row and "pod/shop/leak" in row for row in rows)
    assert any("Started" in row and "pod/default/web" in row for row in rows)


def test_of_one_pod_as_documents(guarded: Guarded) -> None:
    done = guarded.run("events", "shop/leak", "-o", "json")

    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(each["kind"], each["involvedObject"]["name"]) for each in found} == {("Event", "leak")}
    [evicted] = [each for each in found if each["reason"] == "Evicted"]
    assert (evicted["type"], evicted["source"]["component"]) == ("Warning", "kubelet")


def test_a_pod_without_events_is_an_error(guarded: Guarded) -> None:
    done = guarded.run("events", "nothing")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: node `{guarded.name}` has no event of pod `nothing`\n"


def test_without_an_agent_there_are_none(unguarded: Guarded) -> None:
    done = unguarded.run("events")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: no agent runs for node `{unguarded.name}`\n"


def test_following_begins_with_what_is_there(guarded: Guarded) -> None:
    command = [sys.executable, "-m", "jettison", "events", "-f", *guarded.where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == 130
        following.stdout.close()
    assert first.count("  ") >= 4
