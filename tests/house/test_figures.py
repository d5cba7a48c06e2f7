"""The figures of the house do not get worse, and each of them counts what it says."""

import textwrap
from pathlib import Path

import pytest

from tests.house import figures
from tests.house.figures import FIGURES, Tree
from tests.upgrade.old_version import missing, old_version


@pytest.mark.slow
def test_no_figure_is_worse_than_its_limit() -> None:
    rows, worse = figures.table(Tree())
    assert not worse, "\n".join([rows, *worse])


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_what_is_said_of_0_1_0_was_counted() -> None:
    tree = Tree(old_version().source.parent)
    counted = {figure.what: figure.measure(tree) for figure in FIGURES}
    assert counted == {figure.what: figure.at_0_1_0 for figure in FIGURES}


# A package in which each figure has something to count.


def made(root: Path, **files: str) -> Tree:
    """A package of these files; a name is a path with two underscores for each slash."""
    for name, text in files.items():
        path = root / figures.PACKAGE / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip())
    return Tree(root)


def counted(figure: str, tree: Tree) -> int:
    (found,) = (one for one in FIGURES if one.what == figure)
    return found.measure(tree)


def test_a_figure_that_is_worse_is_told_with_its_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, engine__a="x = 1\n# Why.\n")
    assert figures.main(["--root", str(tmp_path)]) == 0
    made(tmp_path, engine__a="x = 1\n# Why.\n", engine__b="")
    assert figures.main(["--root", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "at 0.1.0" in printed
    for figure in FIGURES:
        assert figure.what in printed
    rows, worse = figures.table(Tree(tmp_path))
    assert rows.count("WORSE") == len(worse) == 1
    assert "src/penstock/engine/b.py" in worse[0]


def test_flat_modules_and_full_folders(tmp_path: Path) -> None:
    tree = made(tmp_path, engine__a="", engine__peers__b="", engine__peers__c="", core__d="")
    assert list(figures.flat_modules(tree)) == ["src/penstock/engine/a.py"]
    assert counted("modules in the fullest folder of engine", tree) == 2


def test_a_circle_through_the_type_checker_is_one(tmp_path: Path) -> None:
    tree = made(
        tmp_path,
        engine__a="from penstock.engine.b import B",
        engine__b="""
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from penstock.engine import c
        """,
        engine__c="import penstock.engine.a",
        engine__d="from penstock.engine.a import A",
    )
    assert list(figures.typing_cycles(tree)) == [f"penstock.engine.{name}" for name in "abc"]


def test_two_circles_are_told_apart() -> None:
    graph = {"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"], "e": ["a", "e"]}
    assert sorted(map(sorted, figures.circles(graph))) == [["a", "b"], ["c", "d"]]


def test_remote_calls(tmp_path: Path) -> None:
    text = """
        LOOK_METHOD = "look"
        METHODS = 3
        class A:
            async def look(self):
                await self._links.ask(1, LOOK_METHOD, b"")
                await self._asking.ask(1)
    """
    tree = made(tmp_path, engine__a=text, engine__peers__b=text)
    assert list(figures.remote_methods(tree)) == ["src/penstock/engine/a.py:1 LOOK_METHOD"]
    assert list(figures.remote_asks(tree)) == ["src/penstock/engine/a.py:5"]


def test_a_small_module_counts_beside_its_only_importer(tmp_path: Path) -> None:
    tree = made(
        tmp_path,
        web__app="from penstock.web import small, shared, large\nfrom penstock.core import far",
        web__page="import penstock.web.shared",
        web__small="X = 1\n" * (figures.SMALL_LINES - 1),
        web__large="X = 1\n" * figures.SMALL_LINES,
        web__shared="",
        core__far="",
        kafka__table="from penstock.kafka import api_00_produce",
        kafka__api_00_produce="",
    )
    (place,) = figures.small_modules(tree)
    assert place == "src/penstock/web/small.py: 79 lines, for src/penstock/web/app.py"


def test_ways_to_do_a_thing(tmp_path: Path) -> None:
    tree = made(
        tmp_path,
        web__a="""
            async def receive(request, delivery):
                await request.receive()
                await self.places.acquire()
                await delivery.receive(1)
        """,
        kafka__b="""
            async def fetch(delivery):
                await delivery.receive(2)
                await delivery.acquire_here(2)
                delivery.received(3)
        """,
        engine__c="""
            def back(receipt):
                return (receipt, Verdict.RETURN)
            def ack(receipt):
                return (receipt, Verdict.ACK)
            class A:
                def open(self):
                    return OpenWork(1)
                def name(self, command):
                    return isinstance(command, OpenWork)
        """,
    )
    assert counted("implementations of receive", tree) == 2
    assert list(figures.give_backs(tree)) == ["src/penstock/engine/c.py:1 back"]
    assert list(figures.openings(tree)) == ["src/penstock/engine/c.py:6 open"]


def test_reach_throughs(tmp_path: Path) -> None:
    text = "end = shard.replica.log.end\nmachine = shard.machine\n"
    tree = made(
        tmp_path, web__a=text, engine__replica__b=text, engine__shard=text, engine__topics__c=text
    )
    assert list(figures.reach_throughs(tree)) == ["src/penstock/web/a.py:1 .replica.log"]
    assert list(figures.engine_reach_throughs(tree)) == [
        "src/penstock/engine/topics/c.py:1 .replica.log"
    ]


def test_names_in_two_folders(tmp_path: Path) -> None:
    tree = made(
        tmp_path,
        core__a="class Topic: pass\nclass _Own: pass\nclass Place: pass",
        client__b="class Topic: pass\nclass _Own: pass\nclass Reader: pass",
        client__c="class Reader: pass",
        wire__d="class Place: pass",
    )
    assert list(figures.shared_names(tree)) == ["Place: core, wire", "Topic: client, core"]
    glossary = tmp_path / figures.GLOSSARY
    glossary.parent.mkdir()
    entries = "- `Topic`: one is a handle of the client\n- `Place`:\n\n## Others\n\n- `Place`: no\n"
    glossary.write_text(f"# Glossary\n\n{figures.GLOSSARY_TITLE}\n\n{entries}")
    assert list(figures.shared_names(Tree(tmp_path))) == ["Place: core, wire"]
    glossary.write_text("# Glossary\n")
    assert Tree(tmp_path).glossary is None


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(("asking", True), ("told", True), ("remembered", True), ("poll_parking", True)),
        *(("standings", False), ("founding", False), ("staging", False), ("settings", False)),
        *(("moved_message", False), ("ring", False), ("feed", False), ("blocking", False)),
        *(("__init__", False), ("shard", False), ("reads_told", True), ("siding", True)),
    ],
)
def test_gerunds(name: str, is_one: bool) -> None:
    assert figures.is_gerund(name) is is_one


def test_a_folder_with_a_gerund_is_counted_once(tmp_path: Path) -> None:
    tree = made(tmp_path, spark__writing__a="", spark__writing__b="", spark__writing__asking="")
    assert list(figures.gerund_modules(tree)) == ["spark/writing", "spark/writing/asking"]


@pytest.mark.parametrize(
    ("text", "names", "says_nothing"),
    [
        ("The board.", ("board",), True),
        ("A member of a group.", ("GroupMember",), True),
        ("Its offsets.", ("offset",), True),
        ("All of it.", ("Plan",), True),
        ("See the top of this module.", ("Meter",), True),
        ("Send one message.", ("send_message",), True),
        ("A member of a share group.", ("ShareMember", "", "share_groups"), True),
        ("A member of a consumer group.", ("ShareMember", "", "share_groups"), False),
        ("Send one message; raises if the queue is full.", ("send_message",), False),
        ("See `Storage`.", ("names",), False),
        ("At most 10.", ("most",), False),
    ],
)
def test_docstrings_that_repeat_a_name(
    text: str, names: tuple[str, ...], says_nothing: bool
) -> None:
    assert figures.repeats_name(text, *names) is says_nothing


def test_docstrings_of_classes_and_functions_are_looked_at(tmp_path: Path) -> None:
    tree = made(
        tmp_path,
        core__a='''
            """The a."""
            class Plan:
                """All of it."""
                def cost(self):
                    """In euros."""
                async def steps(self):
                    """The steps of the plan."""
        ''',
    )
    assert [place.split()[1] for place in figures.empty_docstrings(tree)] == ["Plan:", "steps:"]


def test_lines(tmp_path: Path) -> None:
    tree = made(
        tmp_path,
        core__a='''
            """Prose.

            More."""

            # A comment.
            x = 1  # Not a line of its own.
            y = """
            text
            """
        ''',
        client__blocking__queue='"""Generated; do not edit."""\nx = 1\n',
        client__blocking__thread='"""By hand."""\nx = 1\n',
    )
    assert figures.lines(tree) == 11
    assert figures.comment_lines(tree) == 1
    assert figures.code_lines(tree) == 6
    assert figures.comment_share(tree) == 167
