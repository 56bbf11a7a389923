"""Pictures of runs and sweeps, without a display: SVG or PNG, by the name of the file.

A run: what is left against the thresholds, with evictions, OOM kills and conditions. A sweep: how what matters is
distributed over the seeds, for each combination of settings. The same run gives the same bytes of SVG.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jettison.agent.safe_text import printable
from jettison.engine.node.amounts import short
from jettison.engine.node.signals import ROWS, Signal
from jettison.errors import InputError
from jettison.simulator.run import RunResult, lines_of
from jettison.simulator.scenario import Scenario
from jettison.simulator.sweep import Row, plain, telling_figures, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
MOST_NODES = 6

_INK, _AVAILABLE, _HARD, _SOFT, _GONE, _OOM, _PRESSURE = (
    "#222222",
    "#2a6fb0",
    "#c0392b",
    "#d98a1f",
    "#c0392b",
    "#000000",
    "#f5c6a5",
)
_MARKS = {
    "evict": ("v", _GONE, "eviction"),
    "oom kill": ("X", _OOM, "OOM kill"),
    "api evict": ("^", "#2e8b57", "drained"),
}
_LABELS = {
    "oom_kills": "OOM kills",
    "api_evictions": "evictions by drains",
    "pressure_seconds": "seconds under pressure",
}
_MOST_FIGURES = 4


def format_of(path: Path) -> str:
    """By the ending of its name."""
    found = path.suffix.removeprefix(".").lower()
    if found not in FORMATS:
        raise InputError(f"`{path}`: a picture ends in .{' or .'.join(FORMATS)}")
    return found


def draw_run(scenario: Scenario, result: RunResult, path: Path) -> None:
    """One row for each node and signal that has something to show."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    rows = _rows(scenario, result)
    figure = Figure(figsize=(11, 1.2 + 2.6 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 1, squeeze=False, sharex=True)
    for (node, signal), (each,) in zip(rows, axes, strict=True):
        _draw_signal(each, scenario, result, node, signal)
    axes[-1][0].set_xlabel(f"{_unit(result.seconds)[1]} of virtual time")
    _entitle(figure, f"{result.scenario}, seed {result.seed}")
    _save(figure, path)


def _rows(scenario: Scenario, result: RunResult) -> list[tuple[str, str]]:
    """Nodes on which something happened come first; a disk is shown where it is used."""
    busy = {each.node for each in result.story if each.what != "condition"}
    names = sorted((each.size.name for each in scenario.nodes), key=lambda name: (name not in busy, name))[:MOST_NODES]
    disk = Signal.NODEFS_AVAILABLE.value
    moves = {key for key, series in result.series.items() if series.available and len(set(series.available)) > 1}
    chosen = [
        (name, signal.value)
        for name in names
        for signal in (Signal.MEMORY_AVAILABLE, Signal.NODEFS_AVAILABLE)
        if signal.value != disk or (name, disk) in moves
    ]
    return [key for key in chosen if key in result.series] or list(result.series)[:1]


def _unit(seconds: float) -> tuple[float, str]:
    if seconds > 2 * 86_400:
        return 86_400.0, "days"
    if seconds > 2 * 3_600:
        return 3_600.0, "hours"
    return (60.0, "minutes") if seconds > 180 else (1.0, "seconds")


def _draw_signal(axes: Axes, scenario: Scenario, result: RunResult, node: str, signal: str) -> None:
    series, (unit, _) = result.series[node, signal], _unit(result.seconds)
    scale, suffix = (2**30, "GiB") if series.capacity >= 4 * 2**30 else (2**20, "MiB")
    times = [each / unit for each in series.seconds]
    values = [each / scale for each in series.available]
    for start, end in _pressure(result, node, ROWS[Signal(signal)].condition.value):
        axes.axvspan(start / unit, end / unit, color=_PRESSURE, alpha=0.45, linewidth=0)
    axes.plot(times, values, color=_AVAILABLE, linewidth=1.2, drawstyle="steps-post" if len(times) < 40 else "default")
    for text, amount in lines_of(scenario, node, signal):
        is_soft = " for " in text
        axes.axhline(amount / scale, color=_SOFT if is_soft else _HARD, linestyle=":" if is_soft else "--", linewidth=1)
        axes.annotate(
            text,
            (1.0, amount / scale),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 3),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color=_SOFT if is_soft else _HARD,
        )
    _draw_marks(axes, result, node, times, values, unit)
    axes.set_title(
        f"{node}: {signal} of {short(series.capacity, ROWS[Signal(signal)].resource)}", loc="left", fontsize=9
    )
    axes.set_ylabel(suffix)
    axes.set_ylim(bottom=min(0.0, *values) if values else 0.0)
    axes.set_xlim(0, result.seconds / unit)
    axes.grid(visible=True, color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)


def _draw_marks(
    axes: Axes, result: RunResult, node: str, times: Sequence[float], values: Sequence[float], unit: float
) -> None:
    """Each on the line, at its moment. Names stand beside them while there are few."""
    shown = [each for each in result.story if each.node == node and each.what in _MARKS]
    for what, (marker, colour, label) in _MARKS.items():
        found = [each for each in shown if each.what == what]
        if not found:
            continue
        places = [each.seconds / unit for each in found]
        heights = [_height(times, values, place) for place in places]
        axes.scatter(places, heights, marker=marker, color=colour, s=42, zorder=3, label=f"{label} ({len(found)})")
        if len(shown) <= 12:
            for place, height, each in zip(places, heights, found, strict=True):
                name = each.about.partition("/")[2]
                axes.annotate(
                    name, (place, height), xytext=(4, 7), textcoords="offset points", fontsize=8, color=colour
                )
    if shown:
        axes.legend(loc="upper right", fontsize=8, framealpha=0.85, edgecolor="none")


def _height(times: Sequence[float], values: Sequence[float], place: float) -> float:
    """What the last look saw that was not later: what a kill frees is seen by the next one."""
    index = bisect_left(times, place)
    if index == len(times) or times[index] > place:
        index -= 1
    return values[max(index, 0)] if values else 0.0


def _pressure(result: RunResult, node: str, condition: str) -> list[tuple[float, float]]:
    spans, since = [], None
    for each in result.story:
        if each.what == "condition" and (each.node, each.about) == (node, condition):
            if each.detail == "True":
                since = each.seconds
            elif since is not None:
                spans.append((since, each.seconds))
                since = None
    return spans if since is None else [*spans, (since, result.seconds)]


def draw_sweep(rows: Sequence[Row], keys: Sequence[str], title: str, path: Path) -> None:
    """One picture for each figure, one box for each combination; every run is a point."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault("\n".join(str(row[key]) for key in keys) or "as it is", []).append(row)
    names = telling_figures(rows)[:_MOST_FIGURES]
    figure = Figure(figsize=(max(4.2 * len(names), 6), 4.2), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for each, name in zip(axes, names, strict=True):
        values = [[row[name] for row in group] for group in groups.values()]
        each.boxplot(values, tick_labels=list(groups), showfliers=False, widths=0.5, medianprops={"color": _HARD})
        for position, group in enumerate(values, 1):
            # Side by side and not at random, so that the picture is always the same.
            spread = [position - 0.18 + 0.36 * (index + 0.5) / len(group) for index in range(len(group))]
            each.scatter(spread, sorted(group), color=_AVAILABLE, s=9, alpha=0.6, zorder=3, linewidths=0)
        each.set_title(_LABELS.get(name, name.replace("_", " ")), fontsize=10, loc="left")
        each.tick_params(axis="x", labelsize=8)
        each.set_xlabel(" and ".join(plain(key) for key in keys), fontsize=8)
        each.set_ylim(0, max(1.0, 1.08 * max(value for group in values for value in group)))
        each.yaxis.get_major_locator().set_params(integer=True)
        each.grid(visible=True, axis="y", color="#dddddd", linewidth=0.5)
        each.set_axisbelow(True)
    _entitle(figure, f"{title}, {len(rows)} runs")
    _save(figure, path)


def _entitle(figure: Figure, title: str) -> None:
    """A name of a user or a file may hold dollars, which are no formula, or bytes that are no text."""
    figure.suptitle(printable(title), color=_INK, fontsize=12, parse_math=False)


def _save(figure: Figure, path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415  an extra

    kind = format_of(path)
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "jettison", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, dpi=110, metadata=metadata)
    write_file(path, buffer.getvalue())
