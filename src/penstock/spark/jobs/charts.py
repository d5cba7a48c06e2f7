"""Charts as files: PNG, SVG or PDF by the name of the file. No window is opened.

A chart says what it shows in its title, what its axes are and in which unit, and when it was made.
Colours can be distinguished with any colour vision (Okabe and Ito 2008), and a legend lists them
from the most to the least.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import InvalidRequest, NotInstalled
from penstock.core.extras import how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".png", ".svg", ".pdf")
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
REST: Final = "#999999"
LABEL_CHARACTERS_MAX: Final = 48
DOTS_PER_INCH: Final = 120


def check_chart_file(path: Path) -> None:
    """Raise `InvalidRequest` unless a chart can be written there, before there is one."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidRequest(f"a chart is a {', '.join(SUFFIXES)} file; {path} is none of them")
    if not path.parent.is_dir():
        raise InvalidRequest(f"there is no directory {path.parent} for the chart: make it first")


def new_figure(title: str, *, panels: int, height: float = 3.2) -> "tuple[Figure, list[Axes]]":
    """A figure with panels below each other."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - it is not there on every machine
    except ImportError as error:
        raise NotInstalled(f"charts need matplotlib: {how_to_install('spark')}") from error
    figure = Figure(figsize=(10, 0.8 + height * panels), layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold")
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    figure.text(0.995, 0.99, f"Penstock, {made}", ha="right", va="top", fontsize=7, color=REST)
    axes = figure.subplots(panels, 1, squeeze=False)[:, 0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(axis="y", alpha=0.25)
        one.set_axisbelow(True)
    return figure, list(axes)


def save(figure: "Figure", path: Path) -> Path:
    """Write it; returns where it is."""
    check_chart_file(path)
    figure.savefig(path, dpi=DOTS_PER_INCH)
    return path


def draw_stacked(
    axes: "Axes",
    series: Mapping[str, Sequence[tuple[datetime, int]]],
    *,
    title: str,
    width_seconds: float,
    unit: str,
) -> None:
    """Counts over time as bars, one colour for each name, one on top of the other."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_ylabel(unit)
    times = sorted({at for rows in series.values() for at, _ in rows})
    floor = dict.fromkeys(times, 0)
    days: Any = width_seconds / 86_400
    for number, (name, rows) in enumerate(series.items()):
        heights = dict(rows)
        axes.bar(
            times,  # type: ignore[arg-type]
            [heights.get(at, 0) for at in times],
            width=days * 0.92,
            bottom=[floor[at] for at in times],
            align="edge",
            color=colour(number, name),
            label=shorten(name),
        )
        for at, height in heights.items():
            floor[at] += height
    if times:
        _time_axis(axes)
        axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        _nothing(axes)


def draw_bars(
    axes: "Axes",
    rows: Sequence[tuple[str, int]],
    *,
    title: str,
    unit: str,
    coloured: bool = True,
) -> None:
    """Named counts as bars to the right, the first on top; a colour each where it means one."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(unit)
    axes.grid(axis="y", alpha=0)
    axes.grid(axis="x", alpha=0.25)
    if not rows:
        _nothing(axes)
        return
    places = range(len(rows))
    colours = [colour(number if coloured else 0, name) for number, (name, _) in enumerate(rows)]
    bars = axes.barh(places, [count for _, count in rows], color=colours)
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    axes.set_yticks(places, [shorten(name) for name, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)


def draw_lines(
    axes: "Axes",
    series: Mapping[str, Sequence[tuple[datetime, float]]],
    *,
    title: str,
    unit: str,
    marks: Sequence[tuple[datetime, str]] = (),
) -> None:
    """Numbers over time as lines; what happened meanwhile as marks across them."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_ylabel(unit)
    if not any(series.values()):
        _nothing(axes)
        return
    for number, (name, rows) in enumerate(series.items()):
        axes.plot(
            [at for at, _ in rows],  # type: ignore[arg-type]
            [value for _, value in rows],
            color=colour(number, name),
            label=shorten(name),
            linewidth=1.6,
        )
    for at, told in marks:
        place: Any = at
        axes.axvline(place, color="black", linestyle=":", linewidth=1)
        axes.annotate(
            told,
            (place, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -3),
            textcoords="offset points",
            rotation=90,
            va="top",
            fontsize=7,
        )
    axes.set_ylim(bottom=0)
    _time_axis(axes)
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def colour(number: int, name: str) -> str:
    """Of the series with this number; what is not named apart is grey."""
    return REST if name == "other" or number >= len(COLOURS) else COLOURS[number]


def shorten(name: str) -> str:
    """A name that fits beside a chart. A dollar sign would begin a formula."""
    cut = LABEL_CHARACTERS_MAX
    text = name if len(name) <= cut else name[: cut - 1] + "…"
    return text.replace("$", r"\$")


def _time_axis(axes: "Axes") -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415

    locator = AutoDateLocator(tz=UTC, minticks=3)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    shown = ConciseDateFormatter(locator, tz=UTC)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(shown)


def _nothing(axes: "Axes") -> None:
    axes.text(0.5, 0.5, "nothing", transform=axes.transAxes, ha="center", color=REST)
    axes.set_yticks([])
    axes.set_xticks([])
