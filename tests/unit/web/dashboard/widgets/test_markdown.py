"""Markdown as HTML, for runbooks."""

import re

import pytest

from penstock.watch.rules import RULES
from penstock.watch.runbooks import rule_of, runbook, runbook_path
from penstock.web.dashboard.widgets.markdown import to_html


def html(text: str) -> str:
    return to_html(text, lambda link: f"/at/{link}" if link.endswith(".md") else None)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("# A `b`", "<h1>A <code>b</code></h1>"),
        ("one\ntwo\n\nthree", "<p>one two</p>\n<p>three</p>"),
        ("**A** *b* [c](d.md) [e](f)",
         '<p><strong>A</strong> <em>b</em> <a href="/at/d.md">c</a> e</p>'),
        ("```sh\na < b\n\n# c\n```", "<pre><code>a &lt; b\n\n# c</code></pre>"),
        ("- a\n  b\n- c", "<ul>\n<li>a b</li>\n<li>c</li>\n</ul>"),
        ("1. a\n\n   ```sh\n   x\n   ```\n\n2. b\n\nc",
         "<ol>\n<li>a<pre><code>x</code></pre></li>\n<li>b</li>\n</ol>\n<p>c</p>"),
        ("<b>&\"", "<p>&lt;b&gt;&amp;&quot;</p>"),
        ('[a](x"y.md)', '<p><a href="/at/x&quot;y.md">a</a></p>'),
    ],
)  # fmt: skip
def test_what_runbooks_use(text: str, made: str) -> None:
    assert html(text) == made


def test_a_table() -> None:
    made = html("| a | b |\n|---|---|\n| `c` | d |")
    assert '<th scope="col">a</th>' in made
    assert "<tr><td><code>c</code></td><td>d</td></tr>" in made


@pytest.mark.parametrize("rule", RULES)
def test_nothing_of_a_runbook_is_left_as_markdown(rule: str) -> None:
    text = runbook(rule)
    assert text is not None
    words = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", html(text), flags=re.DOTALL)
    assert not re.search(r"^#|^- |\|--|`|\*\*|\]\(", words, re.MULTILINE)
    assert rule_of(runbook_path(rule).rpartition("/")[2]) == rule
