"""The figures of the house: how the package is cut, and whether there is one way to do a thing.

    python -m tests.house.figures            the table
    python -m tests.house.figures --places   and where each figure comes from

Each figure is a function from the sources to the places that it counts, so that whoever finds one
too high sees where to begin. `FIGURES` says what was counted in release 0.1.0, by the same
functions, and what is allowed now: `test_figures.py` fails when a figure is worse, and counts 0.1.0
again where the history is there. To tighten a limit, edit its line.

Heuristics are meant to be plain, not clever; the docstring of each function says what it counts.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.house.sources import ROOT, Source

PACKAGE = "src/penstock"
FRONT_ENDS = ("kafka", "sqs", "native", "web")
BROKER = ("engine", *FRONT_ENDS)
ENGINE = f"{PACKAGE}/engine"
PEERS = f"{ENGINE}/peers"
DRIVER = f"{ENGINE}/replica"
GLOSSARY = "docs/GLOSSARY.md"
GLOSSARY_TITLE = "## Names used in more than one folder"
GENERATED = "client/blocking"
"""Made from the async client by `tests.house.blocking_client`, but for what it does not write."""

PUBLIC = frozenset({"blocking", "embedded", "testing"})
"""Folders whose names users import, and would have to change."""
NOUNS = frozenset({
    "binding", "building", "decoding", "encoding", "feed", "finding", "founding", "heading",
    "listing", "logging", "mapping", "meaning", "need", "padding", "partitioning", "reading",
    "recording", "ring", "routing", "scheduling", "seed", "setting", "sharding", "speed",
    "staging", "standing", "string", "thing", "timing", "tracing", "warning", "wording",
})  # fmt: skip
"""Words that end like a gerund or a participle and are nouns, in this field or in English."""
PARTICIPLES = frozenset({
    "asked", "done", "drawn", "found", "given", "gone", "held", "kept", "known", "lately", "led",
    "left", "made", "met", "paid", "said", "seen", "sent", "spent", "stood", "taken", "thought",
    "told", "torn", "won", "written",
})  # fmt: skip
"""Of verbs that make them in their own way."""
FILLERS = frozenset({
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "each", "every", "for", "from",
    "has", "have", "here", "if", "in", "into", "is", "it", "its", "itself", "like", "module",
    "not", "of", "off", "on", "one", "only", "or", "our", "out", "see", "some", "that", "the",
    "their", "them", "there", "these", "they", "this", "those", "to", "top", "up", "was", "we",
    "were", "what", "when", "where", "which", "who", "with", "you", "your",
})  # fmt: skip
"""What a docstring may say beside a name and still say nothing."""
SMALL_LINES = 80
LISTED = r"/kafka/api_\d\d_\w+\.py$|/web/dashboard/pages/\w+\.py$"
"""One file for each entry of a table: the cards of Kafka's APIs, the pages of the dashboard."""
PLACES_MAX = 20
EMPTY_WORDS_MAX = 10
"""A longer docstring says something, whatever its words are."""
FLAT_DRIVER = frozenset({
    "batcher", "commit_times", "compaction", "diary", "duties", "local_shards", "peers",
    "proposals", "replica", "retention", "shard", "surroundings", "time_slices", "transfer",
    "upkeep", "worker",
})  # fmt: skip
"""The modules of `engine/replica` when `engine` was flat."""


class Tree:
    """The Python files of the package, in one version of the repository."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    @cached_property
    def sources(self) -> list[Source]:
        """All of them, sorted by path."""
        return [
            Source(path.relative_to(self.root).as_posix(), path.read_text("utf-8"))
            for path in sorted((self.root / PACKAGE).rglob("*.py"))
        ]

    def within(self, *folders: str) -> list[Source]:
        """Those of some folders of the package."""
        return [one for one in self.sources if one.within(*(f"{PACKAGE}/{it}" for it in folders))]

    @cached_property
    def glossary(self) -> frozenset[str] | None:
        """The names that the glossary explains; None while it has no such section."""
        path = self.root / GLOSSARY
        if not path.exists():
            return None
        return glossary_names(path.read_text("utf-8"))


def glossary_names(text: str) -> frozenset[str] | None:
    """The entries of the glossary's section about names: lines like "- `Name`: why"."""
    _, found, rest = text.partition(f"{GLOSSARY_TITLE}\n")
    if not found:
        return None
    section = rest.split("\n## ", 1)[0]
    return frozenset(re.findall(r"^- `(\w+)`: \S", section, re.MULTILINE))


Places = Iterable[str]


def flat_modules(tree: Tree) -> Places:
    """Modules that lie in `engine` itself, in no folder."""
    for source in tree.within("engine"):
        if source.path.count("/") == ENGINE.count("/") + 1 and _stem(source) != "__init__":
            yield source.path


def fullest_folder(tree: Tree) -> Places:
    """The modules of the fullest folder of `engine`; those in none count as one folder."""
    folders: dict[str, list[str]] = {}
    for source in tree.within("engine"):
        if _stem(source) != "__init__":
            folders.setdefault(source.path.rpartition("/")[0], []).append(source.path)
    return max(folders.values(), key=len, default=[])


def typing_cycles(tree: Tree) -> Places:
    """Modules of `engine` that import each other in a circle, imports for the type checker
    included."""
    sources = {source.module: source for source in tree.within("engine")}
    graph = {name: _imports(source, sources.keys()) for name, source in sources.items()}
    for circle in circles(graph):
        yield from sorted(circle)


def remote_methods(tree: Tree) -> Places:
    """Remote methods that are made by hand: constants called `…_METHOD` outside `engine/peers`."""
    for source in tree.within(*BROKER):
        if source.within(PEERS):
            continue
        for node in source.tree.body:
            names = []
            if isinstance(node, ast.Assign):
                names = [one.id for one in node.targets if isinstance(one, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            for name in names:
                if name.endswith("_METHOD"):
                    yield f"{source.path}:{node.lineno} {name}"


def remote_asks(tree: Tree) -> Places:
    """Calls of `links.ask(…)` outside `engine/peers`: whoever makes one encodes the request,
    chooses the deadline and decodes the answer by itself."""
    for source in tree.within(*BROKER):
        if source.within(PEERS):
            continue
        for node in source.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "ask" and _last_name(node.func.value).endswith("links"):
                    yield f"{source.path}:{node.lineno}"


def receives(tree: Tree) -> Places:
    """Ways to lease messages: the methods of the engine that front-ends call for it, by name. Each
    has its own order of partitions, waiting and limits."""
    found: dict[str, str] = {}
    for source in tree.within(*FRONT_ENDS):
        for node in source.nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if not node.args and not node.keywords:
                continue  # A lock.
            name = node.func.attr
            if re.fullmatch(r"(acquire|pre_acquire|receive|ask_ahead)(_\w+)?", name):
                if _last_name(node.func.value) not in ("request", "self"):
                    found.setdefault(name, f"{source.path}:{node.lineno} {name}")
    return found.values()


def give_backs(tree: Tree) -> Places:
    """Functions of broker and client that give leases back uncounted: those that name the
    verdict."""
    for source, function in _functions(tree.within(*BROKER, "client")):
        names = [node for node in ast.walk(function) if isinstance(node, ast.Attribute | ast.Name)]
        if any(_last_name(node) == "RETURN" for node in names):
            yield f"{source.path}:{function.lineno} {function.name}"


def openings(tree: Tree) -> Places:
    """Functions of the broker that open a work group: those that make an `OpenWork`."""
    for source, function in _functions(tree.within(*BROKER)):
        if any(
            isinstance(node, ast.Call) and _last_name(node.func) == "OpenWork"
            for node in ast.walk(function)
        ):
            yield f"{source.path}:{function.lineno} {function.name}"


def reach_throughs(tree: Tree) -> Places:
    """Expressions of front-ends that reach through a shard: `….replica.…` and `….machine.…`."""
    return _reach_throughs(tree.within(*FRONT_ENDS))


def engine_reach_throughs(tree: Tree) -> Places:
    """The same of everything else in the package, but for the driver of shards itself."""
    for source in tree.sources:
        flat = source.path == f"{ENGINE}/{_stem(source)}.py" and _stem(source) in FLAT_DRIVER
        if not flat and not source.within(DRIVER, *(f"{PACKAGE}/{it}" for it in FRONT_ENDS)):
            yield from _reach_throughs([source])


def _reach_throughs(sources: Iterable[Source]) -> Places:
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                if node.value.attr in ("replica", "machine"):
                    yield f"{source.path}:{node.lineno} .{node.value.attr}.{node.attr}"


def shared_names(tree: Tree) -> Places:
    """Names of public classes that stand in more than one folder of the package and are not in the
    glossary's list."""
    explained = tree.glossary or frozenset()
    for name, folders in sorted(class_folders(tree.sources).items()):
        if len(folders) > 1 and name not in explained:
            yield f"{name}: {', '.join(sorted(folders))}"


def class_folders(sources: Iterable[Source]) -> Mapping[str, set[str]]:
    """Name of a public class -> the folders of the package in which one is defined."""
    found: dict[str, set[str]] = {}
    for source in sources:
        folder = source.path.removeprefix(f"{PACKAGE}/").split("/")[0]
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(folder)
    return found


def gerund_modules(tree: Tree) -> Places:
    """Modules and folders whose name ends with a gerund or a participle, and not with a noun."""
    seen = set()
    for source in tree.sources:
        parts = source.path.removeprefix(f"{PACKAGE}/").removesuffix(".py").split("/")
        for depth, part in enumerate(parts, 1):
            place = "/".join(parts[:depth])
            if place not in seen and is_gerund(part):
                yield place
            seen.add(place)


def is_gerund(name: str) -> bool:
    """Whether a module's last word is an activity, or what happened to something."""
    word = name.strip("_").split("_")[-1].lower()
    if name in PUBLIC or word in NOUNS or word.removesuffix("s") in NOUNS:
        return False
    return word in PARTICIPLES or bool(re.fullmatch(r"\w{2,}(ing|ings|ed)", word))


def small_modules(tree: Tree) -> Places:
    """Modules of fewer than `SMALL_LINES` lines with one importer, which lies beside them: each may
    be a paragraph of its importer. What a table lists by file, one API or page each, does not
    count."""
    sources = {source.module: source for source in tree.sources}
    importers: dict[str, list[Source]] = {}
    for source in tree.sources:
        for name in _imports(source, sources):
            importers.setdefault(name, []).append(source)
    for name, source in sorted(sources.items()):
        if len(source.lines) >= SMALL_LINES or re.search(LISTED, source.path):
            continue
        users = importers.get(name, [])
        if len(users) == 1 and _folder(users[0]) == _folder(source):
            yield f"{source.path}: {len(source.lines)} lines, for {users[0].path}"


def empty_docstrings(tree: Tree) -> Places:
    """Docstrings that repeat the name of their thing, its class and its module, and say no more."""
    for source in tree.sources:
        for owner, node in _documented(source):
            text = ast.get_docstring(node)
            if text is not None and repeats_name(text, node.name, owner, _stem(source)):
                yield f"{source.path}:{node.lineno} {node.name}: {text}"


def repeats_name(text: str, *names: str) -> bool:
    """True if a docstring has no word that is not in one of the names, but for fillers. Code in
    it, and figures, say something."""
    if "`" in text or any(one.isdigit() for one in text) or len(text.split()) > EMPTY_WORDS_MAX:
        return False
    known = {_root(word) for name in names for word in _words(name)}
    said = [word for word in re.findall(r"[A-Za-z]+", text.lower()) if word not in FILLERS]
    return all(_root(word) in known for word in said)


def comment_lines(tree: Tree) -> int:
    """Lines that are a comment and nothing else."""
    return sum(
        line.lstrip().startswith("#") and number not in texts
        for source in tree.sources
        for texts in [_text_lines(source.nodes, ast.Constant)]
        for number, line in enumerate(source.lines, 1)
    )


def code_lines(tree: Tree) -> int:
    """Lines with code: no docstring, no comment, not empty."""
    total = -comment_lines(tree)
    for source in tree.sources:
        prose = _text_lines(source.nodes, ast.Expr)
        total += sum(
            bool(line.strip()) and number not in prose
            for number, line in enumerate(source.lines, 1)
        )
    return total


def _text_lines(nodes: Iterable[ast.AST], kind: type[ast.Constant | ast.Expr]) -> set[int]:
    """The lines of all texts, or of those that are statements: docstrings."""
    found: set[int] = set()
    for node in nodes:
        text = node.value if isinstance(node, ast.Expr) else node
        if (
            isinstance(node, kind)
            and isinstance(text, ast.Constant)
            and isinstance(text.value, str)
        ):
            assert text.end_lineno is not None
            found.update(range(text.lineno, text.end_lineno + 1))
    return found


def comment_share(tree: Tree) -> int:
    """Comment lines for a thousand lines of code."""
    return round(1_000 * comment_lines(tree) / code_lines(tree))


def lines(tree: Tree) -> int:
    """Lines of Python that were written by hand."""
    return sum(len(one.lines) for one in tree.sources if not _is_generated(one))


def _is_generated(source: Source) -> bool:
    return source.within(f"{PACKAGE}/{GENERATED}") and "do not edit" in source.text[:600].lower()


# What they rest on.


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components with more than one node, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(component)

    for node in graph:
        if node not in index:
            visit(node)
    return found


def _imports(source: Source, modules: Iterable[str]) -> set[str]:
    """Which of these modules a source imports, wherever in it."""
    known = set(modules)
    found = set()
    for node in source.nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            # What is no module itself comes out of the one that is named.
            found |= names & known if names <= known else {node.module, *names}
    return (found & known) - {source.module}


Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef


def _functions(sources: Sequence[Source]) -> Iterator[tuple[Source, Function]]:
    """Every function and method, but for those inside another one."""
    for source in sources:
        pending: list[ast.AST] = [source.tree]
        while pending:
            for node in ast.iter_child_nodes(pending.pop()):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield source, node
                else:
                    pending.append(node)


def _documented(source: Source) -> Iterator[tuple[str, Documented]]:
    """Classes and functions, with the name of the class around them."""
    pending: list[tuple[str, ast.AST]] = [("", source.tree)]
    while pending:
        owner, parent = pending.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.ClassDef):
                yield owner, node
                pending.append((node.name, node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield owner, node
                pending.append((owner, node))


def _last_name(node: ast.expr) -> str:
    """The last word of a dotted expression, without the underscore of what is private."""
    if isinstance(node, ast.Attribute):
        return node.attr.lstrip("_")
    return node.id.lstrip("_") if isinstance(node, ast.Name) else ""


def _stem(source: Source) -> str:
    return source.path.rpartition("/")[2].removesuffix(".py")


def _folder(source: Source) -> str:
    return source.path.rpartition("/")[0]


def _words(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def _root(word: str) -> str:
    """Enough of a word to know it again in another form."""
    for ending in ("ies", "ing", "ers", "ed", "er", "es", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    what: str
    count: Callable[[Tree], int | Places]
    at_0_1_0: int
    limit: int
    aim: int | None = None
    """What the rebuild aimed at, where that is a number; the table marks what misses it."""
    more_is_better: bool = False
    holds_in: Callable[[Tree], bool] = lambda _: True
    """Whether the limit is to be kept already."""

    def measure(self, tree: Tree) -> int:
        """The figure of a tree."""
        found = self.count(tree)
        return found if isinstance(found, int) else len(list(found))

    def places(self, tree: Tree) -> list[str]:
        """Where it comes from, if it counts places."""
        found = self.count(tree)
        return [] if isinstance(found, int) else list(found)

    def is_worse(self, now: int) -> bool:
        """Whether a figure is beyond the limit."""
        return now < self.limit if self.more_is_better else now > self.limit


def _has_glossary(tree: Tree) -> bool:
    return tree.glossary is not None


# What was counted in 0.1.0, what is allowed now, and the aim. To tighten a limit, edit it here.
FIGURES = (
    Figure("flat modules in engine", flat_modules, 98, 1, 0),
    Figure("modules in the fullest folder of engine", fullest_folder, 98, 16, 16),
    Figure("modules of engine in typing cycles", typing_cycles, 10, 0, 0),
    Figure("remote methods made by hand", remote_methods, 27, 0, 0),
    Figure("remote calls made by hand", remote_asks, 27, 0, 0),
    Figure("implementations of receive", receives, 4, 1, 1),
    Figure("implementations of give-back", give_backs, 6, 3, 1),
    Figure("implementations of opening a work group", openings, 4, 1, 1),
    Figure("reach-throughs of front-ends", reach_throughs, 0, 0, 19),
    Figure("reach-throughs elsewhere", engine_reach_throughs, 166, 167),
    Figure("class names in more folders than one", shared_names, 127, 0, 0, holds_in=_has_glossary),
    Figure("modules named by gerunds or participles", gerund_modules, 66, 0, 0),
    Figure("small modules beside their only importer", small_modules, 72, 52),
    Figure("docstrings that repeat a name", empty_docstrings, 118, 5),
    Figure("comment lines per 1,000 lines of code", comment_share, 8, 8, more_is_better=True),
    Figure("lines written by hand", lines, 119_430, 136_000, 105_000),
)


def table(tree: Tree) -> tuple[str, list[str]]:
    """All figures, for people; and what is worse than allowed, with some of its places."""
    width = max(len(one.what) for one in FIGURES)
    rows = [f"{'':{width}} {'at 0.1.0':>9} {'now':>9} {'limit':>9} {'aim':>9}"]
    worse = []
    for one in FIGURES:
        now = one.measure(tree)
        mark = ""
        if one.is_worse(now):
            mark = "  WORSE" if one.holds_in(tree) else "  no glossary"
            if one.holds_in(tree):
                places = one.places(tree)[:PLACES_MAX]
                worse.append("\n    ".join([f"{one.what}: {now:,}, limit {one.limit:,}", *places]))
        elif one.aim is not None and now > one.aim:
            mark = "  aim missed"
        aim = "" if one.aim is None else f"{one.aim:,}"
        row = f"{one.what:{width}} {one.at_0_1_0:>9,} {now:>9,} {one.limit:>9,} {aim:>9}{mark}"
        rows.append(row)
    return "\n".join(rows), worse


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--places", action="store_true", help="where each figure comes from")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the tree that is counted")
    options = parser.parse_args(arguments)
    tree = Tree(options.root)
    if options.places:
        for one in FIGURES:
            print(f"{one.what}:", *one.places(tree), sep="\n    ")
    rows, worse = table(tree)
    print(rows)
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
