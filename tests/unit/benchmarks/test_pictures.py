"""`benchmarks.pictures`: what is written is well-formed, and things stand where they should."""

import xml.etree.ElementTree as ET

import pytest

from benchmarks.pictures import bars, card, dots, lines, scales, svg
from benchmarks.pictures.figures import FIGURES
from benchmarks.pictures.flame import depth, draw_flame, read_stacks
from benchmarks.record import Document

SVG = "{http://www.w3.org/2000/svg}"


def test_words_stay_words() -> None:
    assert svg.escape("""<b> & "c" 'd'""") == "&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;"
    sheet = svg.Sheet(10, 10, "<title> & more")
    sheet.words(1, 2, "a < b & c", size=10, fill="#000")
    root = ET.fromstring(sheet.text())
    assert [one.text for one in root] == ["<title> & more", "a < b & c"]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (-0.01, "0"), (12, "12"), (12.5, "12.5"), (12.345, "12.3")]
)
def test_places_are_short(value: float, text: str) -> None:
    assert svg.place(value) == text


def test_a_linear_scale_goes_from_end_to_end() -> None:
    scale = scales.linear(200, 10, 110)
    assert [scale(value) for value in (0, 100, 200)] == [10, 60, 110]


def test_a_logarithmic_scale_gives_every_decade_the_same_room() -> None:
    scale = scales.logarithmic(0.1, 100, 0, 300)
    assert [round(scale(value)) for value in (0.1, 1, 10, 100)] == [0, 100, 200, 300]
    assert scale(0.01) == 0, "what lies outside is put at the edge"
    assert scale(1_000) == 300


@pytest.mark.parametrize(
    ("high", "about", "marks"),
    [
        (1.0, 5, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (1.1, 5, [0, 0.25, 0.5, 0.75, 1.0, 1.25]),
        (6.2, 5, [0, 2, 4, 6, 8]),
        (900, 4, [0, 250, 500, 750, 1000]),
    ],
)
def test_marks_are_round_numbers(high: float, about: int, marks: list[float]) -> None:
    assert scales.ticks(high, about) == marks


def test_logarithmic_marks_enclose_what_is_shown() -> None:
    assert scales.log_ticks(0.44, 115) == [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200]
    assert scales.log_ticks(1, 1) == [1, 2]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1_645_557, "1.65 M"),
        (999_900, "1.00 M"),
        (782_975, "783 k"),
        (5_373, "5.37 k"),
        (12, "12.0"),
        (0.439, "0.439"),
        (0.2, "0.2"),
        (0, "0"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert scales.short(value) == text


def test_lines_of_text_break_between_words() -> None:
    words = "one two three four five"
    found = card.wrap(words, svg.width_of("one two three", 10), 10)
    assert found == ["one two three", "four five"]
    assert card.wrap("unbreakable", 1, 10) == ["unbreakable"]


def test_labels_keep_their_distance_and_their_order() -> None:
    found = lines.spread([100, 101, 40], 30, 150)
    assert found == [100, 130, 40]
    low = lines.spread([140, 149, 150], 30, 150)
    assert low == [90, 120, 150], "none lies below the lowest"


def test_ours_are_in_colour_and_the_longest_bar_has_all_the_room() -> None:
    rows = [
        bars.Row(
            name="Penstock", under="synced", ours=True, synced=True, bars=[bars.Bar(value=100)]
        ),
        bars.Row(name="Other", under="memory", ours=False, synced=False, bars=[bars.Bar(value=50)]),
        bars.Row(name="Absent", under="", ours=False, synced=True, bars=[None]),
    ]
    text = bars.draw_bars("T", "s", [bars.Block(columns=["c"], rows=rows)], ["foot"])
    boxes = list(ET.fromstring(text).iter(f"{SVG}rect"))[1:]
    assert [one.get("fill") for one in boxes] == [card.OURS, card.PALE]
    assert float(boxes[0].get("width", "0")) == 2 * float(boxes[1].get("width", "0"))


def test_the_median_is_left_of_the_slowest() -> None:
    span = dots.Span(name="Penstock", under="synced", ours=True, synced=True, p50_ms=1, p99_ms=10)
    text = dots.draw_dots("T", "s", [dots.Section(heading="h", spans=[span])], ["foot"])
    slow, median = list(ET.fromstring(text).iter(f"{SVG}circle"))[:2]
    assert float(median.get("cx", "0")) < float(slow.get("cx", "0"))


def test_labels_of_a_long_axis_are_powers_of_ten() -> None:
    marks = scales.log_ticks(0.2, 1_000)
    wide = scales.logarithmic(marks[0], marks[-1], 0, 1_000)
    narrow = scales.logarithmic(marks[0], marks[-1], 0, 300)
    assert dots.legible(marks, wide, 46) == marks
    assert dots.legible(marks, narrow, 46) == [1, 10, 100, 1_000]
    assert [dots.duration(mark) for mark in (0.2, 5, 2_000)] == ["0.2 ms", "5 ms", "2 s"]


def document(findings: dict[str, list[dict[str, float | int | str]]]) -> Document:
    machine = {"processor": "A & B", "cores": "2", "versions": "penstock 1.2"}
    return Document(
        when="2026-01-02T03:04:05", quick=False, seconds=1, machine=machine, findings={**findings}
    )


def test_what_was_not_measured_is_not_drawn() -> None:
    assert {figure(document({})) for figure in FIGURES.values()} == {None}


def test_a_curve_names_machine_rates_and_aim() -> None:
    rows: list[dict[str, float | int | str]] = [
        {
            "backlog_messages": size,
            "way": "send",
            "messages_per_second": 1_000 * ratio,
            "ratio_to_first": ratio,
            "memory_bytes": 1 << 20,
        }
        for size, ratio in ((0, 1.0), (100_000, 0.9), (10_000_000, 0.5))
    ]
    text = FIGURES["scaling-backlog"](document({"scaling-backlog": rows}))
    assert text is not None
    words = [one.text or "" for one in ET.fromstring(text).iter(f"{SVG}text")]
    assert {"0", "100 k", "10 M", "send 0.50×", "1.00 k/s → 500/s"} <= set(words)
    assert any(one.startswith("aim: at least 0.8") for one in words)
    assert any("A & B, 2 cores" in one and "Penstock 1.2" in one for one in words)


def test_others_are_compared_with_ours_of_as_many_nodes() -> None:
    rates = {"Penstock, 1 node": 100, "Penstock, 3 nodes": 60, "Kafka 4, 3 nodes": 30}
    rows: list[dict[str, float | int | str]] = [
        {
            "system": system,
            "durability": "synced 1/1",
            "way": way,
            "message": "100 B",
            "messages_per_second": rate,
        }
        for system, rate in rates.items()
        for way in ("produce", "consume")
    ]
    text = FIGURES["throughput-kafka"](document({"broker-throughput": rows}))
    assert text is not None
    assert text.count("ours 2.0×") == 2


def test_a_flame_is_as_wide_as_its_share() -> None:
    stacks = (
        "main (x.py:1);Runner.run (asyncio/runners.py:118);a (penstock/engine/replica/shard.py:3) "
        "6\n"
        "main (x.py:1);Runner.run (asyncio/runners.py:118);a (penstock/engine/replica/shard.py:9);"
        "b<c> (penstock/core/records.py:2) 2\n"
        "nonsense\n"
    )
    root = read_stacks(stacks)
    (loop,) = root.above.values()
    (a,) = loop.above.values()
    assert (root.samples, loop.name, a.samples) == (8, "Runner.run", 8)
    assert [(one.name, one.samples) for one in a.above.values()] == [("b<c>", 2)]
    assert depth(root, root.samples) == 4
    picture = draw_flame(root, "a title")
    assert "b&lt;c&gt;" in picture
    assert "b<c>" not in picture
