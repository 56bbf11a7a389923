"""`jettison check DIR|FILE…`: what an agent would say about manifests, without one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from jettison import events
from jettison.agent.pods.directories import ManifestDirectory
from jettison.agent.pods.sources import LastGood, wanted_pods
from jettison.agent.safe_text import printable
from jettison.cli.output import Remarks, emit, output_option
from jettison.cli.policy.policy_input import counted
from jettison.errors import InputError, ManifestError
from jettison.events import Fact
from jettison.node.container_runtime import usual_offer
from jettison.runtimes.host.specs.spec import pod_spec
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.values import frozen


@frozen
class ManifestCheck:
    """What was found; every error begins with the file, or with the pod where it is about a pod of a good file."""

    files: tuple[str, ...]
    pods: tuple[str, ...]
    errors: tuple[str, ...]

    def __str__(self) -> str:
        counts = (counted(len(self.files), "file"), counted(len(self.pods), "pod"), counted(len(self.errors), "error"))
        return ", ".join(counts)


@click.command("check", short_help="What is wrong with these manifests, without starting anything?")
@click.argument("paths", nargs=-1, required=True, metavar="DIR|FILE…", type=click.Path(path_type=Path))
@output_option
def command(paths: tuple[Path, ...], output: str) -> int:
    """Read manifests as `jettison up --manifests` does, and say what is wrong with them. Nothing is started.

    \b
    jettison check ./pods
    jettison check web.yaml classes.yaml

    It reports what cannot be read, unknown fields, missing priority classes, pods that are defined twice, and what this
    host cannot run. Exits with 2 if anything is wrong, else with 0.
    """
    found = check_manifests(paths)
    remarks = Remarks()
    if not found.files:
        remarks.warnings.append(f"no manifest in {', '.join(map(str, paths))}: their names end in .yaml, .yml or .json")
    emit(
        output,
        remarks,
        lambda: "\n".join([*(printable(f"error: {each}") for each in found.errors), str(found)]),
        lambda: {
            "kind": "ManifestFindings",
            "files": list(found.files),
            "pods": list(found.pods),
            "errors": list(found.errors),
        },
    )
    return InputError.exit_code if found.errors else 0


def check_manifests(paths: Iterable[Path]) -> ManifestCheck:
    """All paths together, as one agent would have them: a priority class in one of them counts in all."""
    errors: list[str] = []

    def note(fact: Fact) -> None:
        if isinstance(fact, events.ActionFailed):
            errors.append(fact.why)

    directories = [_directory(path, note) for path in paths]
    for directory in directories:
        directory.look_now()
    wanted = wanted_pods(directories, {}, note, LastGood()).values()
    for manifest in wanted:
        try:
            pod_spec(manifest.document, str(manifest.pod), usual_offer())
        except ManifestError as error:
            errors.append(f"{manifest.origin}: pod `{manifest.pod!s}`: {str(error).removeprefix(f'{manifest.pod}: ')}")
    files = sorted({source for directory in directories for source in directory.files(())})
    return ManifestCheck(tuple(files), tuple(sorted(str(each.pod) for each in wanted)), tuple(sorted(set(errors))))


def _directory(path: Path, note: events.Emit) -> ManifestDirectory:
    try:
        # Not only whether it is there: a directory that cannot be listed has no manifests that could be wrong.
        is_directory = path.is_dir()
        if is_directory:
            next(path.iterdir(), None)
        else:
            path.stat()
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {reason(error)}") from error
    return ManifestDirectory(path, note) if is_directory else ManifestDirectory(path.parent, note, only=path.name)
