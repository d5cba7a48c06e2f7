"""The runner of pages can tell a good page from a bad one."""

from pathlib import Path

import pytest

from tests.docs.blocks import BadPage, Block, blocks_of
from tests.docs.pages import (
    commands_for_the_eye,
    compare,
    indented_commands,
    missing_programs,
    parse,
    run_page,
    unrun_blocks,
)
from tests.docs.stage import Failed, Shown

PAGE = """\
# Page

<!-- test: until="order 9" seconds=5 -->
```python
print(1)
```

<!-- test: sh
echo hidden
-->
1. A list
   ```sh
   echo shown
     indented
   ```
<!-- test: output -->
```text
shown
```
"""


def blocks(text: str) -> list[Block]:
    return blocks_of("page.md", text)


def fenced(language: str, text: str, order: str = "") -> str:
    above = f"<!-- test: {order} -->\n" if order else ""
    return f"{above}```{language}\n{text}\n```\n"


def test_blocks_are_read_with_their_orders() -> None:
    first, hidden, listed, output = blocks(PAGE)
    assert (first.language, first.text, first.line) == ("python", "print(1)\n", 4)
    assert first.orders == {"until": "order 9", "seconds": "5"}
    assert (hidden.hidden, hidden.text, hidden.language) == (True, "echo hidden\n", "sh")
    assert listed.text == "echo shown\n  indented\n"
    assert output.orders == {"output": ""}
    assert output.place == "page.md:17"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (fenced("", "penstock dev"), "language none"),
        (fenced("ruby", "puts 1"), "language ruby"),
        ("```sh\necho\n", "no end"),
        (fenced("sh", "echo", "sikp=1"), "no such order: sikp"),
        (fenced("sh", "echo", '"x"'), "cannot read"),
        (fenced("text", "hello", "output"), "output of what"),
        ("<!-- test: fails -->\nProse.\n" + fenced("sh", "false"), "right above its block"),
        ("<!-- test: fails -->\n", "without a block"),
    ],
)
def test_a_bad_page_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(BadPage, match=complaint):
        blocks(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        fenced("python", "one = 1")
        + fenced("python", "print(one)")
        + fenced("text", "1", "output"),
        fenced("python", "import asyncio\nawait asyncio.sleep(0)\nprint('a', 'b')")
        + fenced("text", "a…b", "output"),
        fenced("python", "while True:\n    print('again')", 'until="again"'),
        fenced("python", "{}['x']", "raises=KeyError"),
        fenced("sh", "export NAME=x") + fenced("sh", "echo $NAME") + fenced("text", "x", "output"),
        fenced("sh", "false", "fails"),
        fenced("sh", "read line; test $line = yes", 'types="yes"'),
        fenced("sh", "echo ready; exec tail -f /dev/null", 'background until="ready"'),
        fenced("sh", "echo one; exec tail -f /dev/null", 'background later="one"'),
        fenced("python", "x = 1", "file=mine.py") + fenced("python", "from mine import x"),
        fenced("python", "import nothing_like_it", 'skip="it is not there"'),
        fenced("json", '{"a": 1}') + fenced("toml", "a = 1"),
    ],
)
def test_a_good_page_runs(text: str, tmp_path: Path) -> None:
    assert run_page(blocks(text), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (fenced("python", "print('so far')\n1 / 0"), r"ZeroDivisionError\n(.|\n)*so far"),
        (fenced("python", "print(1)") + fenced("text", "2", "output"), "another output"),
        (fenced("python", "print(1)", 'until="2"'), 'expected "2"'),
        (fenced("python", "print(1)", "raises=KeyError"), "expected KeyError, got well"),
        (fenced("python", "while True:\n    pass", "seconds=0.1"), "nothing within"),
        (fenced("sh", "false | true"), "exit code 1"),
        (fenced("sh", "true", "fails"), "expected an error"),
        (fenced("sh", "echo $UNKNOWN"), "unbound variable"),
        (fenced("sh", "exit 3", 'background until="x"'), 'ended before "x"'),
        (fenced("sh", "exit 3", 'background later="x"'), 'ended before "x"'),
        (fenced("json", "{"), "no json"),
        (fenced("toml", "a ="), "no toml"),
    ],
)
def test_a_page_that_does_not_hold_is_told_of(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match=complaint):
        run_page(blocks(text), tmp_path)


def test_a_block_that_is_skipped_is_at_least_python(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        run_page(blocks(fenced("python", "1 +", "skip=because")), tmp_path)


def test_what_a_shell_leaves_behind_is_ended(tmp_path: Path) -> None:
    page = fenced("sh", "tail -f /dev/null & echo $!") + fenced("text", "…", "output")
    shown: list[Shown] = []
    assert run_page(blocks(page), tmp_path, shown.append) == []
    assert not Path(f"/proc/{shown[0].output.strip()}").exists()


def test_what_does_not_run_is_listed() -> None:
    page = fenced("sh", "aws sqs", "needs=aws") + fenced("python", "\nimport pika", 'skip="no."')
    assert list(unrun_blocks(blocks(page))) == [
        "page.md: aws sqs: runs where aws is installed",
        "page.md: import pika: no.",
    ]


def test_a_program_that_is_not_here_is_missed(tmp_path: Path) -> None:
    page = blocks(fenced("sh", "no-such-program", "needs=bash,no-such-program"))
    assert missing_programs(page[0]) == "no-such-program"
    assert run_page(page, tmp_path) == ["page.md:2: no no-such-program here"]


def test_commands_for_the_eye_are_found() -> None:
    found = list(commands_for_the_eye(blocks(fenced("text", "penstock dev\nthe picture"))))
    assert found == ["page.md:1: penstock dev"]
    assert list(indented_commands("page.md", "Type\n\n    make test\n")) == ["page.md:3: make test"]


def test_an_output_may_leave_out() -> None:
    shown = Shown(blocks(fenced("sh", "echo"))[0], "order 1 at 12:00  \norder 2\n", "well")
    wanted = blocks(fenced("sh", "echo") + fenced("text", "order 1 at …\norder 2", "output"))[1]
    compare(wanted, shown)
    with pytest.raises(Failed):
        compare(wanted, Shown(shown.block, "order 1\n", "well"))


def test_a_document_is_parsed() -> None:
    parse(blocks(fenced("toml", "a = 1"))[0])
