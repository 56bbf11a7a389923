"""Values: what `@frozen` promises, which is what a frozen dataclass with slots does."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from jettison.values import frozen


@frozen
class Point:
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list, compare=False)


@frozen
class Nothing:
    """No field, as some decisions have none."""


@frozen
class Deep(Point):
    z: int = 3


def test_values_are_compared_by_their_fields() -> None:
    assert Point(1) == Point(1, 2, ["a"]) != Point(2)
    assert hash(Point(1)) == hash(Point(1, 2))
    assert Point(1) != Deep(1)
    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing(), Point(1), Point(1), Deep(1)}) == 3
    assert repr(Deep(1)) == "Deep(x=1, y=2, names=[], z=3)"
    assert [each.name for each in fields(Deep)] == ["x", "y", "names", "z"]
    match Deep(7):
        case Deep(x, z=z):
            assert (x, z) == (7, 3)


@frozen
class Derived:
    """A field that no caller gives, in three kinds: made, with a default, and set afterwards."""

    x: int
    made: list[int] = field(default_factory=list, init=False)
    fixed: int = field(default=7, init=False)
    double: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", self.x * 2)


def test_fields_that_no_caller_gives_are_set() -> None:
    value = Derived(2)
    assert (value.made, value.fixed, value.double) == ([], 7, 4)
    assert value.made is not Derived(2).made
    with pytest.raises(TypeError, match=r"Derived\.__init__\(\) got an unexpected keyword argument 'fixed'"):
        Derived(2, fixed=3)  # type: ignore[call-arg]


def test_a_wrong_call_is_told_as_python_tells_it() -> None:
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(SyntaxError, match="non-default argument follows default argument"):

        @frozen
        class Late:
            x: int = 1
            y: int  # type: ignore[misc]


def test_a_class_costs_one_compiled_function() -> None:
    """A plain frozen dataclass compiles seven; with them, classes were half of the start of a command."""
    compiled: list[str] = []

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if is_heard and event == "compile":
            compiled.append(str(arguments[0]))

    is_heard = True
    sys.addaudithook(hear)  # There is no way to take one out again, so it is told when to be deaf.

    class Kept:
        x: int = 1

    frozen(Kept)
    is_heard = False
    assert len(compiled) == 1, compiled


def test_what_a_class_defines_itself_stays() -> None:
    @frozen
    class Shown:
        x: int = 1
        secret: str = field(default="s", repr=False)

    @frozen
    class Own:
        x: int = 1

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    prefix = "test_what_a_class_defines_itself_stays.<locals>."
    assert [repr(Shown()), repr(Own())] == [f"{prefix}Shown(x=1)", "own"]
    assert (Own(1) == Own(2), hash(Own())) == (True, 5)


@pytest.mark.parametrize("kind", [Point, Deep])
@pytest.mark.parametrize("name", ["x", "other"])
def test_a_value_does_not_change(kind: type[Point], name: str) -> None:
    value = kind(1)
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(value, name, 3)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(value, name)
    assert not hasattr(value, "__dict__")
    assert replace(value, x=5) == kind(5)


def test_copies_are_equal() -> None:
    for value in (Point(1, 3), Deep(4)):
        assert copy.deepcopy(value) == value
        assert pickle.loads(pickle.dumps(value)) == value


def test_the_class_without_slots_does_not_stay() -> None:
    """Of a plain dataclass it does, through the functions that refuse changes: 3 KB for each class."""

    class Kept:
        x: int = 1

    before = weakref.ref(Kept)
    made = frozen(Kept)
    del Kept
    gc.collect()
    assert before() is None
    assert made().x == 1

    class Plain:
        x: int = 1

    stays = weakref.ref(Plain)
    other = dataclass(frozen=True, slots=True)(Plain)
    del Plain
    gc.collect()
    assert stays() is not None, "Python does it by itself now, and `frozen` may go"
    assert other().x == 1
