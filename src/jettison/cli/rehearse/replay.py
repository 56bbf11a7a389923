"""`jettison replay`: a recording decided again, with its own settings or with others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from jettison.cli.options.kubelet_flags import ConfigArguments
from jettison.cli.output import NOTHING, Remarks, print_document, remark, table
from jettison.cli.policy.node_input import read_input, shown
from jettison.cli.policy.policy_input import counted, read_policy
from jettison.engine.config.policy import PROFILES, Policy
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.decoding import decode_anything
from jettison.simulator.replay import PolicyChange, Replay, replay
from jettison.simulator.settings_changes import parse_setting, with_profile, with_settings
from jettison.simulator.stories import Happening, happenings, side_by_side

DIFFERENT = 3
"""The exit code for a replay that is not what was expected, or not what was recorded."""

_OUTPUTS = ("table", "json", "yaml", "journal")


@click.command("replay", short_help="Decide a recording again.")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Another value of a setting; repeatable.")
@click.option(
    "--config", "config_file", metavar="FILE", help="Another KubeletConfiguration, YAML or JSON, than the recorded one."
)
@click.option("--profile", type=click.Choice(list(PROFILES)), help="Other rules than those that were in force.")
@click.option("--diff", "shows_both", is_flag=True, help="What changes, beside what was decided when it was recorded.")
@click.option("--expect", "expected_path", metavar="FILE", help="What `-o json` printed before; exit 3 if it differs.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(_OUTPUTS),
    default="table",
    show_default=True,
    help="`journal`: the records that a journal would hold, as `jettison journal -o json` prints them.",
)
def command(
    path: Path,
    settings: Sequence[str],
    config_file: str | None,
    profile: str | None,
    shows_both: bool,
    expected_path: str | None,
    output: str,
) -> int:
    """Decide what a node saw again, with the code of this program: which pods go, when, and why.

    With the recorded settings every step must be what it was, to the byte; exit 3 says that one is not. With --set,
    --config or --profile it is what another configuration would have done. From the first other eviction on the world
    is an estimate: pods that go give back what they used, pods that stay keep what they had.
    """
    change = _change([parse_setting(each) for each in settings], config_file, profile)
    if shows_both and change is None:
        raise InputError("--diff compares with another setting: give --set, --config or --profile")
    found = replay(path, change, keeps_journal=output == "journal")
    if found.torn:
        remark("warning", f"{path}: {found.torn}; the recording ends before")
    if output == "journal":
        for record in found.journal:
            # As `jettison journal -o json`: the history in it is kept indented, which would be many lines.
            click.echo(msgspec.json.format(record, indent=-1))
    elif shows_both:
        _show_both(_story(replay(path)), _story(found), output, found)
    else:
        _show(found, output, is_changed=change is not None)
    if expected_path is not None:
        return _compare(_data(found), expected_path)
    if found.first_difference and change is None:
        remark("warning", f"not as recorded at {found.first_difference} (recorded by {found.beginning.program})")
        return DIFFERENT
    return 0


def _change(settings: Sequence[tuple[str, str]], config_file: str | None, profile: str | None) -> PolicyChange | None:
    if not settings and config_file is None and profile is None:
        return None
    other = None
    if config_file is not None:
        remarks = Remarks()
        other = read_policy(ConfigArguments(config_file), profile or "kubelet", remarks).policy
        for each in remarks.warnings:
            remark("warning", each)

    def change(policy: Policy) -> Policy:
        changed = policy if other is None else other
        if profile is not None:
            changed = with_profile(changed, profile)
        return with_settings(changed, settings)

    return change


def _story(found: Replay) -> list[Happening]:
    return [each for step in found.decided for each in happenings(step.seconds, step.document)]


def _data(found: Replay) -> dict[str, Any]:
    return {
        "version": 1,
        "kind": "Replay",
        "node": found.beginning.node,
        "looks": found.looks,
        "seconds": round(found.seconds, 3),
        "story": [each.data() for each in _story(found)],
    }


def _show(found: Replay, output: str, *, is_changed: bool) -> None:
    if output != "table":
        print_document(output, _data(found))
        return
    story = _story(found)
    if story:
        rows = [(f"{each.seconds:.3f}", each.what, each.about, each.detail) for each in story]
        click.echo(table(("SECONDS", "WHAT", "ABOUT", "WHY"), rows, right=("SECONDS",)))
    else:
        remark("note", "nothing was decided")
    failed = f", {found.failed} that failed" if found.failed else ""
    looks = counted(found.looks, "look")
    remark("note", f"node {found.beginning.node}: {looks} in {found.seconds:.0f} s{failed}")
    if found.same and not is_changed and not found.first_difference and found.beginning.source == "agent":
        remark("note", f"{counted(found.same, 'step')}, all as recorded, to the byte")
    _say_estimated(found)


def _say_estimated(found: Replay) -> None:
    if found.estimated_from is not None:
        remark("note", f"after {found.estimated_from:.3f} s the world is estimated: {found.estimated_because}")


def _show_both(recorded: Sequence[Happening], changed: Sequence[Happening], output: str, found: Replay) -> None:
    pairs = side_by_side(recorded, changed)
    if output != "table":
        rows = [{"recorded": pair.one and pair.one.data(), "changed": pair.two and pair.two.data()} for pair in pairs]
        print_document(output, {"version": 1, "kind": "ReplayDifference", "node": found.beginning.node, "pairs": rows})
        return
    cells = []
    for pair in pairs:
        known = pair.one or pair.two
        assert known is not None
        what = known.detail if known.what == "condition" else ""
        times = [NOTHING if each is None else f"{each.seconds:.3f}" for each in (pair.one, pair.two)]
        cells.append((*times, f"{known.what} {what}".strip(), known.about))
    if cells:
        click.echo(table(("RECORDED", "CHANGED", "WHAT", "ABOUT"), cells, right=("RECORDED", "CHANGED")))
    else:
        remark("note", "nothing is decided with either")
    _say_estimated(found)


def _compare(data: dict[str, Any], path: str) -> int:
    expected = decode_anything(read_input(path), shown(path))
    if (
        not isinstance(expected, dict)
        or expected.get("kind") != data["kind"]
        or not isinstance(expected.get("story"), list)
    ):
        raise ManifestError(f"{shown(path)}: expected what `-o json` of this command printed")
    for number, (was, now) in enumerate(zip(expected["story"], data["story"], strict=False), 1):
        if was != now:
            remark(
                "warning", f"line {number} of the story differs: expected {json.dumps(was)}, found {json.dumps(now)}"
            )
            return DIFFERENT
    was_long, now_long = len(expected["story"]), len(data["story"])
    if was_long != now_long:
        shorter = min(was_long, now_long)
        longer = (expected if was_long > now_long else data)["story"][shorter]
        side = "expected" if was_long > now_long else "found"
        remark("warning", f"line {shorter + 1} of the story is {side} only: {json.dumps(longer)}")
        return DIFFERENT
    remark("note", f"as expected: {now_long} lines")
    return 0
