"""Pods, programs and orders of every kind, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from jettison.engine.lifecycle.rules import ProbeKind, RestartPolicy
from jettison.engine.node.evictions import Eviction
from tests.builders import pod as make_pod
from tests.engine.lifecycle.virtual import PodSpec, ProbeSpec, Program, Spec, World, ephemeral

seconds = st.integers(0, 40)


@st.composite
def probe_specs(draw: st.DrawFn) -> tuple[ProbeSpec, ...]:
    kinds = draw(st.sets(st.sampled_from(ProbeKind)))
    return tuple(
        ProbeSpec(
            kind,
            draw(st.integers(0, 5)),
            draw(st.integers(1, 10)),
            1 if kind is not ProbeKind.READINESS else draw(st.integers(1, 3)),
            draw(st.integers(1, 3)),
            draw(st.none() | st.integers(1, 10)),
        )
        for kind in sorted(kinds)
    )


@st.composite
def containers(draw: st.DrawFn, name: str, *, is_init: bool) -> Spec:
    is_sidecar = is_init and draw(st.booleans())
    is_plain = is_init and not is_sidecar
    hook = draw(st.sampled_from([(), ("x",)]))
    return Spec(name, () if is_plain else draw(probe_specs()), () if is_plain else hook, is_init, is_sidecar)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    sick_from = draw(st.none() | seconds)
    return Program(
        draw(st.none() | seconds),
        draw(st.sampled_from([0, 0, 1, 137])),
        draw(st.none() | st.integers(0, 20)),
        draw(st.sampled_from([0.0, 0.0, 0.3, 3.0, None])),
        lambda _kind, age: sick_from is None or age < sick_from,
        draw(st.sampled_from([0.0, 2.0, 600.0])),
        draw(st.sampled_from([0.0, 0.0, 0.5, 5.0])),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    regulars = tuple(
        draw(containers(f"c{number}", is_init=False)) for number in range(draw(st.sampled_from([1, 2, 3, 6])))
    )
    inits = tuple(draw(containers(f"i{number}", is_init=True)) for number in range(draw(st.integers(0, 3))))
    spec = PodSpec(
        regulars,
        inits,
        draw(st.sampled_from(RestartPolicy)),
        draw(st.integers(1, 30)),
        draw(st.none() | st.integers(1, 120)),
        tuple(ephemeral(f"e{number}") for number in range(draw(st.integers(0, 2)))),
    )
    return World(spec, {each.name: draw(programs()) for each in (*regulars, *inits, *spec.ephemeral_containers)})


orders = st.fixed_dictionaries(
    {
        "order": st.none() | st.just(Eviction(make_pod("p"), "low", 5, "memory.available")),
        "grace_seconds": st.none() | st.integers(0, 40),
        "is_at_once": st.sampled_from([False, False, False, True]),
        "is_unwanted": st.booleans(),
    }
)
crash_points = st.lists(st.integers(0, 12), max_size=6)
