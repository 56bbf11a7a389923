"""The shape of the code: layers, sizes, names and charters. What a review would have to say again and again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "jettison"
MODULES = sorted(SOURCE.rglob("*.py"))
TEST_FILES = sorted((ROOT / "tests").rglob("test_*.py"))
PACKAGES = sorted(path.parent for path in MODULES if path.name == "__init__.py")

LONGEST_FUNCTION = 60
SHORTEST_CHARTER = 80
# Public class names that stand in several modules, and what tells them apart. A new name is unique, or stands here with
# such a reason; two classes of one name are never imported by one module.
SHARED_NAMES = {
    "Access": "what a kubeconfig gives; what a request asks for",
    "Admission": "the answer of a node; the checks of the API server",
    "Allowance": "why a pod may go; how much a connection may take",
    "Answer": "of the agent's socket; of a probe",
    "Change": "of an object in a cache; of an object in the store",
    "Container": "in a pod's spec; on the host",
    "DeleteOptions": "as the client sends them; as the server reads them",
    "Ending": "what the agent remembers of one; what a pod's life remembers of its own",
    "Field": "of a KubeletConfiguration; of a Kubernetes kind",
    "Kind": "of a configuration field's value; of an API's objects",
    "Limits": "of a cgroup; of connections",
    "Machine": "as doctor, the allocatable and /proc each describe it",
    "Mark": "in a container's log; in the store's log",
    "Objects": "the verbs of the API; what a node restriction looks at",
    "Page": "of top; of a list",
    "Pressure": "what the engine decides on; what the kernel's psi files say",
    "Process": "as /proc shows it; as the host runtime starts it",
    "Reading": "of a manifest directory; of a signal",
    "Refusal": "of an eviction; of a pod's spec",
    "Request": "to the agent's socket; to the API server",
    "Resource": "that a signal is about; that the API serves",
    "Response": "of the agent's socket; of the API server",
    "Signal": "a quantity of the node; the effect that sends SIGTERM",
    "Sources": "of the agent's endpoints; of a policy",
    "State": "of a check of doctor; of a threshold in a report",
    "Verdict": "how a pod's life ended; whether a request is allowed",
    "Volume": "in a pod's spec; on the host",
    "Watcher": "of a cgroup's place; of an API's objects",
}
# Names that say nothing about what lives inside, so that everything ends up there.
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}


def _name(path: Path) -> str:
    return str(path.relative_to(SOURCE.parent))


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(_parsed(path))]


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in _nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_there_is_something_to_check() -> None:
    """A moved folder must not make these tests pass."""
    assert len(MODULES) > 40
    assert SOURCE / "engine" in PACKAGES


def test_functions_fit_into_a_head() -> None:
    """No function is longer than 60 lines. A module is as long as its idea, so nothing counts its lines."""
    long = [
        f"{_name(path)}: {node.name} has {length} lines"
        for path in MODULES
        for node in _functions(path)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]
    assert not long, long


def test_names_say_what_lives_inside() -> None:
    """No module is called utils, helpers, common, base or manager."""
    strangers = [_name(path) for path in [*MODULES, *PACKAGES] if path.stem in FORBIDDEN_NAMES]
    assert not strangers


@cache
def _public_classes() -> dict[str, list[str]]:
    """Module names by the class that they define."""
    found: dict[str, list[str]] = {}
    for path in MODULES:
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        for node in _parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return found


def test_a_class_name_means_one_thing() -> None:
    """In the whole package, or `SHARED_NAMES` says what tells its classes apart."""
    shared = {name: modules for name, modules in _public_classes().items() if len(modules) > 1}
    strangers = {name: modules for name, modules in shared.items() if name not in SHARED_NAMES}
    assert not strangers, strangers


def _meeting(path: Path) -> dict[str, list[str]]:
    """Classes of one name that a module imports from several others."""
    classes = _public_classes()
    imported: dict[str, set[str]] = {}
    for node in _nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for each in node.names:
                if node.module in classes.get(each.name, ()):
                    imported.setdefault(each.name, set()).add(node.module)
        elif isinstance(node, ast.ClassDef) and node.name in classes:
            imported.setdefault(node.name, set()).add("this module")
    return {name: sorted(modules) for name, modules in imported.items() if len(modules) > 1}


def test_two_classes_of_one_name_do_not_meet() -> None:
    """A module that imported both would rename one of them, and its reader would have to look which is which."""
    found = {_name(path): meeting for path in MODULES if (meeting := _meeting(path))}
    assert not found, found


# Kubernetes answered questions about these, and nothing but `tests/oracle` asks for the answers.
ORACLE_NAMES = {"check_image_policy"}
# Tests read scenarios from texts; commands read files.
TEST_NAMES = {"parse_scenario"}
# Commands of a group: click finds them by their decorators. Elements of a row whose others are used.
DECORATED_NAMES = {"load_command", "WRITABLE"}


def _named(path: Path) -> Iterator[str]:
    """What a module refers to: names, attributes, imports, and words of short texts, for imports at run time."""
    for node in _nodes(path):
        match node:
            case ast.Name(name, ast.Load()) | ast.Attribute(_, name) | ast.alias(name):
                yield name
            case ast.Constant(str() as text) if len(text) < 200:
                yield from re.findall(r"\w+", text)


def _defined(path: Path) -> Iterator[str]:
    for node in _parsed(path).body:
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.Assign(targets):
                yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            case ast.AnnAssign(ast.Name(name)):
                yield name


def test_nothing_is_left_that_no_module_refers_to() -> None:
    """A function, class or constant that only its tests use is read and kept for nothing."""
    named = {name for path in MODULES for name in _named(path)}
    known = ORACLE_NAMES | TEST_NAMES | DECORATED_NAMES
    left = {name: _name(path) for path in MODULES for name in _defined(path) if name not in named}
    assert not {name: where for name, where in left.items() if name not in known and not name.startswith("__")}
    assert known <= left.keys()


def test_every_package_has_a_charter() -> None:
    """What lives here, in words, before anything else."""
    charters = {_name(path): ast.get_docstring(_parsed(path / "__init__.py")) for path in PACKAGES}
    assert not [name for name, charter in charters.items() if charter is None or len(charter) < SHORTEST_CHARTER]


def test_every_module_says_why_it_is_there() -> None:
    """In a docstring, which is where a newcomer begins."""
    assert not [_name(path) for path in MODULES if not ast.get_docstring(_parsed(path))]


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _left_open(path: Path) -> list[int]:
    nodes = _nodes(path)
    kept = {id(item.context_expr) for node in nodes if isinstance(node, ast.With) for item in node.items}
    # A walk in portions keeps its listing open between them, and has a `close` of its own.
    kept |= {id(node.value) for node in nodes if isinstance(node, ast.Assign)}
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call) and _called(node) == "scandir" and id(node) not in kept
    ]


def test_a_directory_that_is_listed_is_closed() -> None:
    """An iterator of scandir that is dropped half way keeps its descriptor until garbage is collected."""
    found = {_name(path): lines for path in MODULES if (lines := _left_open(path))}
    assert not found, f"scandir without `with`, by line: {found}"


def test_errors_and_facts_share_no_name() -> None:
    """`ObservationError` is raised and `ObservationFailed` is recorded: a name that is both is read wrongly."""
    errors, facts = (
        {
            node.name
            for node in ast.parse((SOURCE / name).read_text(encoding="utf-8")).body
            if isinstance(node, ast.ClassDef)
        }
        for name in ("errors.py", "events.py")
    )
    assert "ActionError" in errors
    assert "ActionFailed" in facts
    assert not errors & facts


def test_what_failed_is_named_precisely() -> None:
    """The parents of the failures are for handlers; only their kinds are raised or made."""
    made = {
        (_name(path), node.func.id)
        for path in MODULES
        for node in _nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not [each for each in made if each[1] in ("RuntimeFailure", "ActionError")]


def test_broad_handlers_stand_where_the_architecture_says() -> None:
    """`except Exception` hides bugs, so each file that has one is listed with its reason."""
    broad = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        for node in _nodes(path)
        if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name) and node.type.id == "Exception"
    }
    errors = (
        (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Errors")[2].partition("## ")[0]
    )
    listed = {line.split("`")[1] for line in errors.splitlines() if line.startswith("| `")}
    assert broad == listed


_MAP = re.compile(r"^## The map of `([a-z/]+)/`$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def _on_the_map(text: str) -> tuple[set[str], tuple[str, ...]]:
    """Modules and whole folders, relative to the package. A row with a bold folder begins that folder."""
    modules, folders, folder = set[str](), list[str](), ""
    for cell in re.findall(r"^\| ([^|]*`[^|]*) \|", text, re.MULTILINE):
        if cell.startswith("**"):
            folder = cell.strip("*`")
            continue
        for name in re.findall(r"`([a-z_/]+)(?:\.py)?`", cell):
            if name.endswith("/"):
                folders.append(folder + name)
            else:
                modules.add(folder + name)
    return modules, tuple(folders)


def test_the_maps_name_every_module_and_no_other() -> None:
    """The room for a new line is found at first guess only if the map is whole: each module is named, or its folder."""
    maps = dict(_MAP.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")))
    assert {path.name for path in PACKAGES if path.parent == SOURCE} == {name.partition("/")[0] for name in maps}
    missing, gone = [], []
    for package, text in maps.items():
        modules, folders = _on_the_map(text)
        directory = SOURCE / package
        found = {str(path.relative_to(directory).with_suffix("")) for path in directory.rglob("[a-z]*.py")}
        missing += [f"{package}/{each}" for each in found - modules if not each.startswith(folders)]
        gone += [f"{package}/{each}" for each in modules - found]
        gone += [f"{package}/{each}" for each in folders if not (directory / each).is_dir()]
    assert not missing
    assert not gone


# Helpers that fail: by an assertion, or by running out of patience.
_CHECKING_HELPER = re.compile(r"_?(until|wait_until|assert|verify|attempt|handshake|goes_after)(_|$)|_?until_\w+")
_CHECKS = {"raises", "fail", "warns"}


def _can_fail(test: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and (_called(node) in _CHECKS or bool(_CHECKING_HELPER.match(_called(node)))))
        for node in ast.walk(test)
    )


def _tests(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Of the module and its classes, as pytest finds them."""
    body = _parsed(path).body
    for node in [*body, *(each for group in body if isinstance(group, ast.ClassDef) for each in group.body)]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def test_no_test_asserts_nothing() -> None:
    """A test that only runs the code passes whatever the code does, unless it raises."""
    assert len(TEST_FILES) > 200
    tests = [(path.name, each) for path in TEST_FILES for each in _tests(path)]
    assert len(tests) > 3000
    assert not [(name, each.name) for name, each in tests if not _can_fail(each)]


def test_a_test_that_asserts_nothing_is_found() -> None:
    idle, busy = (ast.parse(f"def test_a():\n    {line}\n") for line in ("work(1)", "assert work(1)"))
    assert [_can_fail(each) for each in (idle, busy)] == [False, True]


# A file without a time is as of now; the caller may say otherwise (`now_ns`).
READS_THE_TIME = {"clock.py", "manifests/node_files.py"}
CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def _readings_of_a_clock(path: Path) -> list[str]:
    return [
        f"{_name(path)}:{node.lineno}: {node.func.value.id}.{node.func.attr}"
        for node in _nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.attr in CLOCKS.get(node.func.value.id, ())
    ]


def test_time_comes_from_the_clock_that_is_passed_in() -> None:
    """Commands may look at the machine's clock: they print the time of the call. All else takes a `Clock`."""
    inside = [path for path in MODULES if path.relative_to(SOURCE).parts[0] != "cli"]
    takers = [path for path in inside if str(path.relative_to(SOURCE)) not in READS_THE_TIME]
    assert not [reading for path in takers for reading in _readings_of_a_clock(path)]
    assert _readings_of_a_clock(SOURCE / "clock.py")


# What tests set all the same, and why no caller could pass it.
SET_BY_TESTS = {
    "_MOUNT_SETATTR": "the number of a system call, for a kernel that does not have it",
}


def _is_number(value: ast.AST | None) -> bool:
    """Written as one, or counted from one: `3 * 1024`, `2 * MOST`."""
    match value:
        case ast.Constant(int() | float() as number):
            return not isinstance(number, bool)
        case ast.BinOp(left, _, right):
            return _is_number(left) or _is_number(right)
        case ast.UnaryOp(_, operand):
            return _is_number(operand)
    return False


def _numbers(module: ast.Module) -> Iterator[str]:
    """Constants of a module that are lengths of time, or amounts."""
    for node in module.body:
        match node:
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                pairs = [*zip(names, values, strict=False)]
            case ast.Assign(names, value):
                pairs = [(name, value) for name in names]
            case ast.AnnAssign(name, _, value) if value is not None:
                pairs = [(name, value)]
            case _:
                continue
        yield from (name.id for name, value in pairs if isinstance(name, ast.Name) and _is_number(value))


def _set(module: ast.Module) -> Iterator[str]:
    """All that it may set in other modules: names in functions that call `setattr`, which may be in a loop or below the
    name of their module, and attributes of names.
    """
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = [*ast.walk(function)]
        has_setattr = any(isinstance(node, ast.Call) and _called(node) == "setattr" for node in nodes)
        for node in nodes:
            match node:
                case ast.Constant(str() as text) if has_setattr:
                    yield text.rpartition(".")[2]
                case ast.Attribute(ast.Name(), name, ast.Store()):
                    yield name


def test_a_length_of_time_is_passed_in_and_not_set_in_its_module() -> None:
    """So is an amount. A test that sets a constant fails when its name changes, or works on when it is read no more."""
    constants = {name for path in MODULES for name in _numbers(_parsed(path)) if name.isupper()}
    assert len(constants) > 300
    tests = sorted((ROOT / "tests").rglob("*.py"))
    found = {name: path.name for path in tests for name in _set(_parsed(path)) if name in constants}
    assert found.keys() == SET_BY_TESTS.keys(), found


@pytest.mark.parametrize(
    "line",
    [
        'monkeypatch.setattr(module, "_A", 1)',
        'setattr(module, "_A", value)',
        'patched.setattr("package.module._A", 0.5)',
        'for name in ("_A", "_B"): patched.setattr(module, name, 1)',
        "module._A, before = 0, module._A",
    ],
)
def test_a_constant_that_a_test_sets_is_found(line: str) -> None:
    assert "_A" in _set(ast.parse(f"def test_a():\n    {line}\n"))


def test_numbers_are_found_however_they_are_written() -> None:
    module = ast.parse('A = 1\nB: Final = 3 * 1024\nC, D = 0.5, "x"\nE = 2 * A\nF = -1\nG = True')
    assert [*_numbers(module)] == ["A", "B", "C", "E", "F"]
