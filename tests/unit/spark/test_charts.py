"""Charts as files."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from penstock.core.errors import InvalidRequest
from penstock.spark.jobs.charts import (
    check_chart_file,
    draw_bars,
    draw_stacked,
    new_figure,
    save,
    shorten,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = [START + timedelta(minutes=number) for number in range(5)]


@pytest.mark.slow
def test_a_figure_is_written_as_what_its_name_says(tmp_path: Path) -> None:
    figure, (over_time, bars) = new_figure("Failures", panels=2)
    series = {"timeout": [(TIMES[0], 3), (TIMES[1], 4)], "other": [(TIMES[1], 1)]}
    draw_stacked(over_time, series, title="over time", width_seconds=60, unit="messages")
    draw_bars(bars, [("costs $5 and $6", 7), ("other", 1)], title="reasons", unit="messages")
    assert save(figure, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    svg = save(figure, tmp_path / "a.svg").read_text()
    assert "<svg" in svg
    bars_drawn = [one.get_bbox() for one in over_time.patches if isinstance(one, Rectangle)]
    assert [bar.height for bar in bars_drawn] == [3, 4, 0, 1]
    assert bars_drawn[-1].y0 == 4  # On top of the first series.


@pytest.mark.slow
def test_a_chart_of_nothing_says_so(tmp_path: Path) -> None:
    figure, (one, two) = new_figure("Nothing", panels=2)
    draw_stacked(one, {}, title="over time", width_seconds=60, unit="messages")
    draw_bars(two, [], title="reasons", unit="messages")
    texts = [[text.get_text() for text in axes.texts] for axes in (one, two)]
    assert texts == [["nothing"]] * 2
    save(figure, tmp_path / "a.png")


def test_where_a_chart_cannot_be_is_told_before_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"\.png, \.svg, \.pdf"):
        check_chart_file(tmp_path / "chart.txt")
    with pytest.raises(InvalidRequest, match="no directory"):
        check_chart_file(tmp_path / "nowhere" / "chart.png")


def test_long_names_are_cut_and_dollars_are_no_formulas() -> None:
    assert len(shorten("x" * 100)) == 48
    assert shorten("a$b") == r"a\$b"
