"""The blocking client, generated from the async one.

`penstock.client.blocking` offers every class of `TWINS` without `await`. A generated class wraps an
object of the async class (`Twin`), and each public member of that class becomes one of these:

    async method       the same parameters; the client's loop runs it and the caller waits
    method             the same, and the loop calls it: what it touches belongs to the loop
    property           read directly, without a hop to the loop
    public attribute   a property, with the type that `__init__` gives it
    async generator    its own body without `async` and `await`
    __aenter__, …      __enter__, …

The annotation of a parameter or result says how a value crosses over: a class of `TWINS` is wrapped
or unwrapped, an `AsyncIterator` becomes an `Iterator`, an `Iterable` is read on the caller's
thread. An annotation that no rule covers is an error here, not a wrong client.

What cannot be derived is written by hand in `loop_thread.py`, `lifecycle.py`, `iteration.py` and
`twin.py`, or stands in one of the tables below.

`python -m tests.house.blocking_client` writes the modules. It imports nothing of Penstock, so it
also works when the modules in place no longer fit the async classes.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

from tests.house.sources import ROOT, Source

ASYNC = "penstock.client"
BLOCKING = "penstock.client.blocking"
COMMAND = "make generate"

TWINS = {
    "Client": "client",
    "Consumer": "consumer",
    "Message": "message",
    "Queue": "queue",
    "Redriven": "queue",
    "Stage": "stage",
    "Subscription": "subscription",
    "Topic": "topic",
}
"""Async class to the module that holds it; its twin is in the module of the same name."""
PARENTS = {"Client": ("group_admin", "GroupAdmin", "Groups.")}
"""The class that an async class inherits public methods from, and a title for them."""
BY_HAND = {"Client": ("ClientLifecycle", ("open", "close"))}
"""The hand-written base of a twin, and the methods it brings."""
ASYNC_ONLY = (
    ("Client", "raw_log"),  # For programs that decode batches, which bring a loop along.
    ("Message", "lease"),  # What messages share that were leased together: internal.
)
OFF_LOOP = (("Message", "processing"),)
"""Methods that touch nothing of the loop, and are called on the caller's thread."""
ON_LOOP = (("Subscription", "assignment"),)
"""Properties that read what the loop may be changing."""

ALIASES = {"Messages": "BlockingMessages"}
RENAMED = {
    **{name: f"Blocking{name}" for name in TWINS},
    **ALIASES,
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
SPECIAL = {
    "__repr__": ['return f"Blocking{self._inner!r}"'],
    "__int__": ["return int(self._inner)"],
    "__aenter__": ["self._thread.run(self._inner.__aenter__())", "return self"],
    "__aexit__": ["self.close()"],
    "__aiter__": ["return self"],
}
"""Bodies of methods that have a meaning for Python."""
IMPORTS = f"""\
from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast
from {BLOCKING}.iteration import iterate, listed, next_of
from {BLOCKING}.lifecycle import ClientLifecycle
from {BLOCKING}.twin import Twin, unwrap
"""
"""What generated code may use; ruff takes away what it does not."""

Method = ast.FunctionDef | ast.AsyncFunctionDef


class NoRule(Exception):
    """An async class has something that the generator cannot translate."""


def paths() -> dict[str, str]:
    """The generated files, from the root, and the async module each is made of."""
    return {
        f"src/{BLOCKING.replace('.', '/')}/{one}.py": one for one in sorted(set(TWINS.values()))
    }


def module_text(module: str) -> str:
    """One module of the blocking client, formatted."""
    source = _source(module)
    imports = [IMPORTS, *_imports(module)]
    imports += [
        f"from {BLOCKING}.{home} import Blocking{name}"
        for name, home in TWINS.items()
        if home != module
    ]
    parts = [
        words
        for node in source.tree.body
        if isinstance(node, ast.Assign)
        and ((words := _renamed(node)).startswith("T = TypeVar") or words.startswith("Blocking"))
    ]
    for name in [name for name, home in TWINS.items() if home == module]:
        parts.append(class_text(name, source))
        if name in PARENTS:
            home, parent, title = PARENTS[name]
            imports += _imports(home)
            parts += [f"    # {title}", *_Members(name, parent, _source(home)).texts()]
    return _formatted("\n".join([_opening(module, source), *imports, "", *parts]) + "\n")


@cache
def _source(module: str) -> Source:
    path = f"src/{ASYNC.replace('.', '/')}/{module}.py"
    return Source(path, (ROOT / path).read_text("utf-8"))


def _opening(module: str, source: Source) -> str:
    """The title of the async module and its example, and where the file comes from."""
    title, *rest = (ast.get_docstring(source.tree) or "").split("\n\n")
    example = [part for part in rest if part.startswith("    ")]
    notice = (
        f"Generated from {ASYNC}.{module} by tests/house/blocking_client.py; do not edit.\n"
        f"`{COMMAND}` renews it.\n"
    )
    return '"""' + _adapted("\n\n".join([title, *example, notice])) + '"""'


def _imports(module: str) -> Iterator[str]:
    """What an async module imports and what it defines."""
    for node in _source(module).tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield ast.unparse(node)
        elif isinstance(node, ast.ClassDef):
            yield f"from {ASYNC}.{module} import {node.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if (name := ast.unparse(target)) != "T":
                yield f"from {ASYNC}.{module} import {name}"


def class_text(name: str, source: Source) -> str:
    """The twin of an async class, without what is written by hand."""
    members = _Members(name, name, source)
    bases = [ast.unparse(base) for base in members.node.bases]
    generic = "[T]" if "Generic[T]" in bases else ""
    base = BY_HAND[name][0] if name in BY_HAND else f"Twin[{name}{generic}]"
    made_by = re.search(r"made by\s+`([\w.]+)`", ast.get_docstring(members.node) or "")
    origin = f"; made by `{_in_blocking_words(made_by[1])}`" if made_by else ""
    lines = [
        f"class Blocking{name}({base}{', Generic[T]' if generic else ''}):",
        f'    """`{name}` without `await`{origin}."""',
    ]
    if any(ast.unparse(node).startswith("__slots__") for node in members.node.body):
        lines.append("    __slots__ = ()")
    return "\n".join([*lines, "", *members.texts()])


class _Members:
    """The members that a twin has of one async class: its own, or a parent of it."""

    def __init__(self, name: str, of: str, source: Source) -> None:
        self._name = name
        self._source = source
        self.node = next(
            node for node in source.tree.body if isinstance(node, ast.ClassDef) and node.name == of
        )
        self._overloaded: set[str] = set()

    def texts(self) -> Iterator[str]:
        line = self.node.lineno
        for node, following in _pairs(self.node.body):
            made = list(self._member(node, following))
            if made:
                yield from self._titles(line, node.lineno)[-1:]
                yield from made
                line = node.end_lineno or line

    def _titles(self, first: int, last: int) -> list[str]:
        """Of sections of the class, between two lines."""
        return [
            f"    # {text}\n"
            for line, text in self._source.comments
            if first < line < last and self._source.lines[line - 1].startswith("    #")
        ]

    def _member(self, node: ast.stmt, following: ast.stmt | None) -> Iterator[str]:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            yield f"    {ast.unparse(node)}"  # Another name of a method.
            yield from _docstring(following, "    ")
        elif isinstance(node, Method):
            by_hand = BY_HAND[self._name][1] if self._name in BY_HAND else ()
            special = node.name in RENAMED or node.name in SPECIAL
            if node.name == "__init__":
                yield from self._attributes(node)
            elif node.name in by_hand or (self._name, node.name) in ASYNC_ONLY:
                return
            elif special or not node.name.startswith("_"):
                yield from self._method(node)

    def _attributes(self, init: Method) -> Iterator[str]:
        """Public attributes, which are properties of the twin."""
        hints = {one.arg: one.annotation for one in [*init.args.args, *init.args.kwonlyargs]}
        for node, following in _pairs(init.body):
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found = re.fullmatch(r"self\.([a-z]\w*)", ast.unparse(target))
            if found is None:
                continue
            name = found[1]
            hint: ast.expr | None = None
            if isinstance(node, ast.AnnAssign):
                hint = node.annotation
            elif isinstance(node.value, ast.Constant):
                hint = ast.Name(type(node.value.value).__name__)
            elif isinstance(node.value, ast.Name):
                hint = hints.get(node.value.id)
            if hint is None:
                raise NoRule(f"{self._name}.{name} has no type: annotate it in __init__")
            yield f"    @property\n    def {name}(self) -> {_renamed(hint)}:"
            yield from _docstring(following)
            yield f"        return self._inner.{name}\n"

    def _method(self, node: Method) -> Iterator[str]:
        assert node.returns is not None, f"{node.name} does not say what it returns"
        marks = [ast.unparse(mark) for mark in node.decorator_list]
        yield from (f"    @{mark}" for mark in marks)
        name = RENAMED.get(node.name, node.name)
        yield f"    def {name}({_renamed(node.args)}) -> {_renamed(node.returns)}:"
        if "overload" in marks:
            self._overloaded.add(node.name)
            yield "        ..."
        else:
            yield from _docstring(node.body[0])
            yield "\n".join(f"        {line}" for line in self._body(node, marks)) + "\n"

    def _body(self, node: Method, marks: list[str]) -> Iterator[str]:
        if any(isinstance(one, ast.Yield) for one in ast.walk(node)):
            for one in node.body[1:] if ast.get_docstring(node) else node.body:
                yield from re.sub(r"\b(async|await) ", "", ast.unparse(one)).splitlines()
        elif node.name in SPECIAL:
            yield from SPECIAL[node.name]
        elif node.name == "__anext__":
            yield from _returned("next_of(self._inner, self._thread)", node)
        elif "property" in marks and (self._name, node.name) in ON_LOOP:
            yield f"return self._thread.call(lambda: self._inner.{node.name})"
        elif "property" in marks:
            yield f"return self._inner.{node.name}"
        else:
            yield from self._hop(node)

    def _hop(self, node: Method) -> Iterator[str]:
        """The call of the async method, on the loop."""
        passed = []
        for one in [*node.args.args[1:], *node.args.kwonlyargs]:
            value = one.arg
            if _is_iterable(one.annotation):
                yield f"{value} = listed({value})"
            elif _head(one.annotation) in {*TWINS, *ALIASES}:
                value = f"unwrap({value})"
            elif _mentions_twin(one.annotation):
                raise NoRule(f"{node.name} takes {ast.unparse(one)}")
            elif node.name in self._overloaded and ast.unparse(one).endswith(": object"):
                value = f"cast(Any, {value})"
            passed.append(f"{one.arg}={value}" if one in node.args.kwonlyargs else value)
        if node.args.vararg is not None:
            passed.insert(len(node.args.args) - 1, f"*{node.args.vararg.arg}")
        if node.args.kwarg is not None:
            passed.append(f"**{node.args.kwarg.arg}")
        call = f"self._inner.{node.name}({', '.join(passed)})"
        if (self._name, node.name) in OFF_LOOP:
            yield from _returned(call, node)
        elif isinstance(node, ast.FunctionDef):
            function = f"lambda: {call}" if passed else call.removesuffix("()")
            yield from _returned(f"self._thread.call({function})", node)
        elif node.name == "close" and ast.unparse(node).startswith("async def close(self) -> None"):
            # A client that is closed has closed its readers; leaving a `with` may come later.
            yield "if not self._thread.is_closed():"
            yield f"    self._thread.run({call})"
        else:
            yield from _returned(f"self._thread.run({call})", node)


def _returned(value: str, node: Method) -> Iterator[str]:
    """What a twin does with the value of the async method, by its annotation."""
    hint = _unquoted(node.returns)
    head = _head(hint)
    inside = hint.slice if isinstance(hint, ast.Subscript) else None
    if head == "None":
        yield value
    elif head == "Self":
        yield from (value, "return self")
    elif head in TWINS:
        yield from (f"found = {value}", f"return Blocking{head}(found, self._thread)")
    elif head == "AsyncIterator" and not _mentions_twin(inside):
        yield from (f"found = {value}", "return iterate(found, self._thread)")
    elif head == "list" and isinstance(inside, ast.Subscript) and _mentions_twin(inside.value):
        twin = _renamed(inside.value)
        yield from (f"found = {value}", f"return [{twin}(one, self._thread) for one in found]")
    elif _mentions_twin(hint) or head.startswith("Async"):
        raise NoRule(f"{node.name} returns {head}")
    else:
        yield f"return {value}"


# Annotations and texts.


def _unquoted(hint: ast.expr | None) -> ast.expr | None:
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
        return ast.parse(hint.value, mode="eval").body
    return hint


def _head(hint: ast.expr | None) -> str:
    """`list` of `list[int]`."""
    hint = _unquoted(hint)
    outer = hint.value if isinstance(hint, ast.Subscript) else hint
    return "" if outer is None else ast.unparse(outer)


def _mentions_twin(hint: ast.expr | None) -> bool:
    words = set() if hint is None else set(re.findall(r"\w+", ast.unparse(hint)))
    return not words.isdisjoint({*TWINS, *ALIASES})


def _is_iterable(hint: ast.expr | None) -> bool:
    """`Iterable[…]`, alone or in a union."""
    hint = _unquoted(hint)
    if isinstance(hint, ast.BinOp):
        return _is_iterable(hint.left) or _is_iterable(hint.right)
    return _head(hint) == "Iterable"


def _in_blocking_words(text: str) -> str:
    text = text.replace("penstock.connect", "penstock.blocking.connect")
    return re.sub(r"\w+", lambda word: RENAMED.get(word[0], word[0]), text)


def _renamed(node: ast.AST) -> str:
    return _in_blocking_words(ast.unparse(node))


def _adapted(text: str) -> str:
    """Prose and examples of the async client, without `async` and `await`."""
    text = re.sub(r"\basync (with|for)\b", r"\1", text)
    text = text.replace("penstock.connect(", "penstock.blocking.connect(")
    return re.sub(r"\bawait (?=[\w(])", "", text)


def _docstring(node: ast.stmt | None, indent: str = "        ") -> Iterator[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        if isinstance(node.value.value, str):
            yield f'{indent}"""{_adapted(node.value.value)}"""'


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Each statement, and the next one, which may be the text about it."""
    return zip(body, [*body[1:], None], strict=True)


# Files.


def _formatted(text: str) -> str:
    """As ruff lays it out, without the imports that are not used. An undefined name is an error."""
    for command in (
        "check --quiet --select=F401,F811,F821,UP028 --fix --unsafe-fixes",
        "check --quiet --select=I --fix",
        "format --quiet",
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command.split(), "--stdin-filename=src/twin.py", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if done.returncode:
            raise NoRule(done.stderr or done.stdout)
        text = done.stdout
    return text


def main() -> None:
    """Write every module that has changed, and say which."""
    for path, module in paths().items():
        text, place = module_text(module), ROOT / path
        if not place.exists() or place.read_text("utf-8") != text:
            place.write_text(text, "utf-8")
            print(path)


if __name__ == "__main__":
    main()
