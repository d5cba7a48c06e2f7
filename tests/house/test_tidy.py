"""Every file follows the house style, and every rule of the style can fail."""

import textwrap

import pytest

from tests.house import tidy
from tests.house.sources import Source, read_sources


def test_every_file_is_tidy() -> None:
    complaints = []
    sources = read_sources()
    for source in sources:
        for rule in tidy.rules_for(source):
            complaints += [f"{source.path}:{complaint}" for complaint in rule(source)]
    for whole in tidy.WHOLE_RULES:
        complaints += whole(sources)
    assert not complaints, "\n" + "\n".join(complaints)


# One or more bad samples per rule: path, content, and a part of the complaint.
LONG_FUNCTION = "def f():\n" + "    pass\n" * 70
ADDRESS = "192." + "168.1.7"
SAMPLES: list[tuple[tidy.Rule, str, str, str]] = [
    (tidy.functions_fit_a_screen, "a.py", LONG_FUNCTION, "1: f has 71 lines"),
    (tidy.functions_fit_a_screen, "a.py", "async " + LONG_FUNCTION, "f has 71 lines"),
    (tidy.lines_fit, "a.py", "x = 1\n" + "y" * 101, "2: 101 columns"),
    (tidy.files_are_short_or_say_why, "a.py", '"""Short."""\n' + "x = 1\n" * 600, "601 lines; say"),
    (
        tidy.files_are_short_or_say_why,
        "a.py",
        '"""Long because."""\n' + "x = 1\n" * 1000,
        "1001 lines, at most",
    ),
    (tidy.modules_open_with_a_docstring, "a.py", "x = 1\n", "opens with a docstring"),
    (tidy.modules_open_with_a_docstring, "a.py", "# A comment is none.\n", "docstring"),
    (tidy.names_are_nouns_of_the_domain, "src/penstock/utils.py", "", '"utils" in utils'),
    (tidy.names_are_nouns_of_the_domain, "src/penstock/common/a.py", "", '"common"'),
    (tidy.names_are_nouns_of_the_domain, "a.py", "class LogManager: pass", '1: "manager" in Log'),
    (tidy.names_are_nouns_of_the_domain, "a.py", "def retry_helper(): pass", '"helper"'),
    (tidy.marks_have_an_issue, "a.py", "x = 1  # TO" + "DO: later", "1: TO" + "DO without"),
    (tidy.marks_have_an_issue, "a.py", "# FIX" + "ME", "without an issue"),
    (tidy.comments_are_sentences_not_code, "a.py", "# x = compute(1)", "commented-out code"),
    (tidy.comments_are_sentences_not_code, "a.py", "# disk.sync()", "commented-out code"),
    (tidy.comments_are_sentences_not_code, "a.py", "# import os", "commented-out code"),
    (tidy.exceptions_are_named, "a.py", "try:\n    f()\nexcept:\n    g()", "3: a bare except"),
    (tidy.nothing_is_executed_that_was_read, "a.py", "import pickle", "1: pickle"),
    (tidy.nothing_is_executed_that_was_read, "a.py", "from marshal import loads", "marshal"),
    (tidy.nothing_is_executed_that_was_read, "a.py", "from unittest import mock", "unittest.mock"),
    (tidy.nothing_is_executed_that_was_read, "a.py", "x = eval('1')", "eval()"),
    (tidy.only_programs_print, "src/penstock/raft/log.py", "print('x')", "1: only the command"),
    (tidy.tests_never_sleep, "tests/unit/a.py", "time.sleep(1)", "1: a test does not sleep"),
    (tidy.tests_never_sleep, "tests/unit/a.py", "await asyncio.sleep(0.1)", "does not sleep"),
    (tidy.tests_never_sleep, "tests/unit/a.py", "from time import sleep", "by another name"),
    (tidy.tests_never_sleep, "tests/unit/a.py", "threading.Event().wait(1)", "is to sleep"),
    (tidy.tests_read_no_clock, "tests/unit/a.py", "from time import perf_counter", "1: perf_c"),
    (tidy.tests_read_no_clock, "tests/unit/a.py", "from a.clock import SystemClock", "1: System"),
    (tidy.tests_read_no_clock, "tests/unit/a.py", "f(now=time.monotonic)", "1: time.monotonic"),
    (tidy.tests_read_no_clock, "tests/unit/a.py", "if loop.time() > end: pass", "1: loop.time"),
    (tidy.tests_read_no_clock, "tests/unit/a.py", "began = time.monotonic()", "1: time.monotonic"),
    (tidy.tests_read_no_clock, "tests/properties/a.py", "datetime.now(UTC)", "1: datetime.now"),
    (tidy.tests_read_no_clock, "tests/unit/a.py", "loop.call_later(1, f)", "1: loop.call_later"),
    (tidy.tests_wait_briefly_or_patiently, "tests/unit/a.py", "q.receive(wait=5)", "1: 5 s may"),
    (tidy.tests_wait_briefly_or_patiently, "tests/unit/a.py", "f(timeout=0.2)", "1: 0.2 s may"),
    (tidy.tests_wait_briefly_or_patiently, "tests/unit/a.py", "asyncio.timeout(20)", "1: 20 s"),
    (tidy.tests_wait_briefly_or_patiently, "tests/unit/a.py", "asyncio.wait_for(x, 1)", "1: 1 s"),
    (tidy.tests_wait_briefly_or_patiently, "tests/unit/a.py", "end = loop.time() + 5", "1: 5 s"),
    (tidy.tests_wait_briefly_or_patiently, "tests/unit/a.py", "T = 2.0\nf(timeout=T)", "2: 2.0 s"),
    (
        tidy.tests_wait_briefly_or_patiently,
        "tests/unit/a.py",
        "import threading\nready.wait(10)",
        "2: 10 s",
    ),
    (tidy.whitespace_is_plain, "a.py", "x = 1 \n", "1: whitespace"),
    (tidy.whitespace_is_plain, "a.md", "a\r\n", "1: whitespace"),
    (tidy.whitespace_is_plain, "a.py", "if x:\n\ty = 1\n", "2: a tab"),
    (tidy.whitespace_is_plain, "a.toml", "x = 1", "no end"),
    (tidy.nothing_belongs_to_a_machine, "a.py", "x = '/ho" + "me/anna/data'", "path of some"),
    (tidy.nothing_belongs_to_a_machine, "a.md", "see `/t" + "mp/notes.md`", "path of some"),
    (tidy.nothing_belongs_to_a_machine, "a.toml", f"url = '{ADDRESS}'", "host of some machine"),
    (tidy.nothing_belongs_to_a_machine, "a.md", "wiki.cor" + "p is down", "host of some machine"),
    (tidy.locks_name_no_host, "a.lock", "a @ https://example.org/a.whl", "no place to fetch"),
    (tidy.locks_name_no_host, "a.lock", "--index-url x", "no place to fetch"),
    (tidy.markdown_has_one_title, "a.md", "No title\n", "found on: nowhere"),
    (tidy.markdown_has_one_title, "a.md", "# One\n\n# Two\n", "found on: 1, 3"),
    (tidy.markdown_has_one_title, "a.md", "text\n# Late\n", "found on: 2"),
    (tidy.markdown_has_one_title, "a.md", "---\nname: a\n---\n\nNone\n", "found on: nowhere"),
]


@pytest.mark.parametrize(("rule", "path", "text", "complaint"), SAMPLES)
def test_a_bad_sample_is_complained_about(
    rule: tidy.Rule, path: str, text: str, complaint: str
) -> None:
    source = Source(path, text)
    found = list(rule(source))
    assert len(found) == 1, found
    assert complaint in found[0]


def test_every_rule_has_a_bad_sample() -> None:
    rules = {
        *tidy.PYTHON_RULES,
        *tidy.TEXT_RULES,
        *tidy.MARKDOWN_RULES,
        *tidy.LOCK_RULES,
    }
    assert rules == {rule for rule, *_ in SAMPLES}


def test_every_file_that_may_read_a_clock_does_and_has_a_reason() -> None:
    sources = {source.path: source for source in read_sources()}
    for path, reason in tidy.CLOCKS_ALLOWED.items():
        assert reason
        unexcused = Source("tests/unit/copy.py", sources[path].text)
        assert list(tidy.tests_read_no_clock(unexcused)), f"{path} needs no excuse"


def test_every_file_that_may_sleep_does_and_has_a_reason() -> None:
    sources = {source.path: source for source in read_sources()}
    for path, reason in tidy.SLEEPS_ALLOWED.items():
        assert reason
        unexcused = Source("tests/unit/copy.py", sources[path].text)
        assert list(tidy.tests_never_sleep(unexcused)), f"{path} needs no excuse"


GOOD_PYTHON = textwrap.dedent('''
    """What it is.

    Long because the sample is.
    """

    import asyncio

    # UNKNOWN_SERVER_ERROR
    # Note: this is prose, although it parses.
    # Raft §5.4.2: only entries of the current term are counted.
    LIMIT = 3  # TODO(#12): measure


    async def wait_until_empty() -> None:
        """Wait."""
        try:
            await asyncio.sleep(0)
            async with asyncio.timeout(60):
                await queue.receive(wait=0.05)
        except ValueError:
            raise
''').lstrip()  # fmt: skip


def test_a_good_sample_is_not_complained_about() -> None:
    samples = [
        Source("tests/unit/test_a.py", GOOD_PYTHON),
        Source("tests/unit/test_long.py", GOOD_PYTHON + "x = 1\n" * 700),
        Source("docs/page.md", "# Title\n\n```\n# a comment\n```\n\n## Section\n"),
        Source(".github/ISSUE_TEMPLATE/a.md", "---\nname: A\n---\n\n# Title\n"),
        Source("Makefile", "all:\n\ttrue\n"),
        Source("tests/scenarios/a.txt", "recorded  \n\tas it was\n"),
        Source("src/penstock/cli/main.py", '"""Prints."""\n\nprint("127.0.0.1 /data/tmp")\n'),
        Source("src/penstock/empty/__init__.py", ""),
        Source("requirements/a.lock", "a==1 \\\n    --hash=sha256:00\n"),
    ]
    complaints = [
        f"{source.path}:{complaint}"
        for source in samples
        for rule in tidy.rules_for(source)
        for complaint in rule(source)
    ]
    assert complaints == []


def test_a_dead_module_is_found() -> None:
    package = [
        Source("src/penstock/__init__.py", ""),
        Source("src/penstock/used.py", ""),
        Source("src/penstock/lazy.py", "app = 1\n"),
        Source("src/penstock/script.py", 'if __name__ == "__main__":\n    pass\n'),
        Source("src/penstock/main.py", 'from penstock import used\nlater = "penstock.lazy:app"\n'),
        Source("src/penstock/only_tested.py", ""),
        Source("src/penstock/testing/fake.py", ""),
        Source("src/penstock/lonely.py", "import penstock.lonely\n"),
        Source("tests/model.py", ""),
        Source("tests/unused_model.py", ""),
        Source("tests/long/run.py", ""),
        Source(
            "tests/test_a.py",
            "import penstock.only_tested, penstock.testing.fake\nfrom tests.model import x\n",
        ),
        Source("pyproject.toml", 'penstock = "penstock.main:main"\n'),
        Source("Makefile", "long:\n\tpython -m tests.long.run\n"),
    ]
    dead = [complaint.split(":")[0] for complaint in tidy.no_module_is_dead(package)]
    assert dead == [
        "src/penstock/only_tested.py",
        "src/penstock/lonely.py",
        "tests/unused_model.py",
    ]
