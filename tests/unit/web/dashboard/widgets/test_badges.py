"""Pieces of pages that are written by functions."""

from penstock.web.dashboard.renderer import environment
from penstock.web.dashboard.widgets.badges import cell, spark


def test_a_number_in_a_table() -> None:
    assert cell(12_345) == '<td class="number">12,345</td>'
    assert cell(0) == '<td class="number none">0</td>'
    assert cell(None, "size") == '<td class="number none">–</td>'
    assert cell(61_000, "age") == '<td class="number">1 min 1 s</td>'


def test_what_it_says_is_text() -> None:
    assert cell(0.01, "rate") == '<td class="number">&lt;0.1/s</td>'


def test_a_small_line() -> None:
    line = spark([0.0, 1.0])
    assert line.startswith('<svg class="spark"')
    assert 'points="0.0,22.5 96.0,1.5"' in line
    assert spark([1.0]) == ""


def test_templates_take_them_as_they_are_and_escape_all_else() -> None:
    text = (
        environment().from_string("{{ 7 | cell }}{{ [0, 1] | spark }}{{ name }}").render(name="<")
    )
    assert text == f"{cell(7)}{spark([0, 1])}&lt;"
