"""`jettison cordon` and `uncordon`: texts are kubectl's, exit codes are honest."""

from __future__ import annotations

from pathlib import Path

from jettison.runtimes.kube.kinds import NODES
from tests.maintenance.playground import Playground, play


def test_there_and_back(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        for command, text, spec in [
            ("cordon", "cordoned", {"unschedulable": True}),
            ("cordon", "already cordoned", {"unschedulable": True}),
            ("uncordon", "uncordoned", {}),
            ("uncordon", "already uncordoned", {}),
        ]:
            ran = await world.run(command, node)
            assert (ran.code, ran.out, ran.err) == (0, [f"node/{node} {text}"], [])
            found = (await world.client.get(NODES, node))["spec"]
            assert {key: found[key] for key in found if key == "unschedulable"} == spec

    play(kubeconfig, scene)


def test_dry_runs_say_so_and_change_nothing(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        for how, suffix in (("client", "(dry run)"), ("server", "(server dry run)")):
            ran = await world.run("cordon", node, f"--dry-run={how}")
            assert (ran.code, ran.out) == (0, [f"node/{node} cordoned {suffix}"])
        assert "unschedulable" not in (await world.client.get(NODES, node))["spec"]

    play(kubeconfig, scene)


def test_a_user_without_the_right_is_told_and_the_exit_code_says_it_too(kubeconfig: Path, viewer: Path) -> None:
    """kubectl exits with 0 here."""

    async def scene(world: Playground) -> None:
        node = await world.node("n1")
        ran = await world.run("cordon", node, kubeconfig=viewer)
        assert (ran.code, ran.out) == (1, [])
        assert ran.err[0].startswith(f'error: unable to cordon node "{node}": nodes "{node}" is forbidden: User ')

    play(kubeconfig, scene)


def test_nodes_by_label(kubeconfig: Path) -> None:
    async def scene(world: Playground) -> None:
        nodes = [await world.node("n1"), await world.node("n2")]
        for node in nodes:
            await world.client.patch(NODES, node, {"metadata": {"labels": {"rack": world.namespace}}})
        ran = await world.run("cordon", "--selector", f"rack={world.namespace}")
        assert (ran.code, sorted(ran.out)) == (0, [f"node/{node} cordoned" for node in nodes])
        nothing = await world.run("cordon", "-l", "rack in (nowhere)")
        assert (nothing.code, nothing.out) == (0, [])

    play(kubeconfig, scene)
