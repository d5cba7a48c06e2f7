"""docs/reference/python.md: every public name of the Python packages, from the code itself.

A name is public because its package lists it in `__all__`. Signatures are those of the source, as
somebody typed them; texts are the docstrings. Functions come first, then classes, those of one
module together, then enumerations and constants, then errors as a table.
"""

import ast
import enum
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

from penstock.core.errors import PenstockError

SIGNATURE_COLUMNS_MAX = 88
PACKAGES = (
    "penstock",
    "penstock.blocking",
    "penstock.workers",
    "penstock.patterns",
    "penstock.testing",
)
"""In the order of the page. One that is not there, or exports nothing, has no section; a name that
several export is told of once, in the last of them."""
TWINS = "penstock.blocking"
"""Its classes have the methods of others, without `await`: signatures are enough."""
FAKES = "penstock.testing"
"""A fake does what the real thing does; what its methods are for is told there."""

POINTER = "see the top of this module"
"""What a class says that its module is all about; the page then has what is said there."""
MODULES = {
    "CircuitBreaker", "Client", "Consumer", "Guarantee", "Message", "Queue", "Retry", "Scaling",
    "Stage", "Subscription", "Topic",
}  # fmt: skip
"""Classes with a short text of their own, which editors show; the page has what their modules say,
which is longer."""

INTRODUCTION = """\
`import penstock` is all that most programs need, and `help(penstock)` shows the same as this page.
Durations are seconds, as numbers or as `timedelta`. What is only listed here is explained in
[the guide](../guides/python-client.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """One public name, what it stands for, and the package that exports it."""

    package: str
    name: str
    value: object

    @property
    def module(self) -> str:
        found = getattr(self.value, "__module__", None)
        return found if isinstance(found, str) else self.package

    @property
    def is_error(self) -> bool:
        return inspect.isclass(self.value) and issubclass(self.value, BaseException)

    @property
    def docstring(self) -> str:
        if inspect.isclass(self.value) or inspect.isroutine(self.value):
            own = inspect.cleandoc(self.value.__doc__ or "")
            if own.startswith(f"{self.name}("):
                return ""  # Made up by `dataclass` for those who wrote none.
            if self.name in MODULES:
                return _module_docstring(self.value)
            if POINTER in own.lower():
                rest = own.partition("\n\n")[2]
                return "\n\n".join(part for part in (_module_docstring(self.value), rest) if part)
            return own
        return _constant_docstring(self.package, self.name)


def public_names(package: str) -> list[Name]:
    """What a package exports, in the order of its own list; nothing if there is no such package."""
    try:
        module = importlib.import_module(package)
    except ModuleNotFoundError:
        return []
    exported = getattr(module, "__all__", ())
    return [
        Name(package=package, name=name, value=getattr(module, name))
        for name in exported
        if not name.startswith("__")
    ]


def undocumented_names() -> Iterator[str]:
    """Public names, and public methods of public classes, that say nothing about themselves. A
    method that a public protocol of the same package explains need not be explained again."""
    for package in PACKAGES:
        names = [one for one in public_names(package) if not isinstance(one.value, ModuleType)]
        explained = {
            method.name
            for one in names
            if getattr(one.value, "_is_protocol", False) and isinstance(one.value, type)
            for method in _methods(one.value)
        }
        for one in names:
            if not one.docstring:
                yield f"{package}.{one.name}"
            if isinstance(one.value, type) and not one.is_error and package not in (FAKES, TWINS):
                for method in _methods(one.value):
                    if not ast.get_docstring(method) and method.name not in explained:
                        yield f"{package}.{one.name}.{method.name}"


def python_page(notice: str) -> str:
    """The whole page."""
    parts = ["# Python", notice, INTRODUCTION]
    for package in PACKAGES:
        names = [one for one in public_names(package) if _home(one) == package]
        if not names:
            continue
        parts.append(f"## {package}")
        if summary := inspect.cleandoc(sys.modules[package].__doc__ or "").split("\n\n")[0]:
            parts.append(" ".join(summary.split()))
        for one in sorted(names, key=_rank):
            if not one.is_error and not isinstance(one.value, ModuleType):
                parts.append(_entry(one))
        if errors := [one for one in names if one.is_error]:
            parts.append(_errors(errors))
    return "\n\n".join(parts) + "\n"


def _home(one: Name) -> str:
    """The last package that exports the same thing under the same name."""
    later = PACKAGES[PACKAGES.index(one.package) :]
    same = [other for package in later for other in public_names(package) if other.name == one.name]
    return [other.package for other in same if other.value is one.value][-1]


def _rank(one: Name) -> tuple[int, str, int, str]:
    """Functions first, then classes with what they do, then kinds of values, then constants."""
    if inspect.isroutine(one.value):
        return 0, "", 0, one.name
    if inspect.isclass(one.value) and not issubclass(one.value, enum.Enum):
        return 1, one.module, -len(list(_methods(one.value))), one.name
    return 2, one.module, 0, one.name


def _errors(names: list[Name]) -> str:
    lines = ["### Errors", "", "| error | kind of | what it means |", "|---|---|---|"]
    for one in names:
        assert inspect.isclass(one.value)
        kind = one.value.__mro__[1].__name__
        first = " ".join(one.docstring.split("\n\n")[0].split())
        lines.append(f"| `{one.name}` | `{kind}` | {first} |")
    if any(
        issubclass(type_, PenstockError) for one in names if isinstance(type_ := one.value, type)
    ):
        lines += ["", "[All errors](errors.md), with the codes that Kafka and SQS clients get."]
    return "\n".join(lines)


def _entry(one: Name) -> str:
    if inspect.isclass(one.value):
        if one.package == TWINS:
            signatures = "\n".join(_signature(method) for method in _methods(one.value))
            return f"### {one.name}\n\n{as_markdown(one.docstring)}\n\n{_fenced(signatures)}"
        return _class_entry(one.name, one.value, one.docstring)
    if inspect.isroutine(one.value):
        node = _definition(one.value)
        told = as_markdown(one.docstring)
        return "\n\n".join([f"### {one.name}()", _fenced(_signature(node)), told])
    return f"### {one.name}\n\n{as_markdown(one.docstring)}"


def _class_entry(name: str, value: type, docstring: str) -> str:
    parts = [f"### {name}", as_markdown(docstring)]
    node = _definition(value)
    assert isinstance(node, ast.ClassDef)
    methods = list(_methods(value))
    makers = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    if issubclass(value, enum.Enum):
        parts.append(_fenced("\n".join(f"{member.name} = {member.value!r}" for member in value)))
    elif fields := _fields(value):
        parts.append(fields)
    for one in makers:
        if one.name == "__init__" and len(one.args.args) + len(one.args.kwonlyargs) > 1:
            if "made by" not in inspect.cleandoc(value.__doc__ or "").lower():
                parts.append(_fenced(_signature(one, as_name=name)))
    for method in methods:
        text = ast.get_docstring(method) or ""
        parts += [_fenced(_signature(method)), as_markdown(text)]
    return "\n\n".join(part for part in parts if part)


def _methods(value: type) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public methods of a class and of those of our classes it inherits from, in order."""
    seen: set[str] = set()
    for kind in value.__mro__:
        if not kind.__module__.startswith("penstock"):
            continue
        node = _definition(kind)
        assert isinstance(node, ast.ClassDef)
        for one in node.body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                overloaded = any(ast.unparse(mark) == "overload" for mark in one.decorator_list)
                if not one.name.startswith("_") and one.name not in seen and not overloaded:
                    seen.add(one.name)
                    yield one


def _fields(value: type) -> str:
    """The annotated fields of a class, those it inherits first, each with the text below it."""
    kinds = [kind for kind in value.__mro__ if kind.__module__.startswith("penstock")]
    return "\n".join(line for kind in reversed(kinds) for line in _own_fields(kind))


def _own_fields(value: type) -> Iterator[str]:
    node = _definition(value)
    assert isinstance(node, ast.ClassDef)
    for one, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            name = one.target.id
            if name.startswith("_") or "ClassVar" in ast.unparse(one.annotation):
                continue
            default = f" = {ast.unparse(one.value)}" if one.value is not None else ""
            told = _text_of(following)
            shown = f"`{name}: {ast.unparse(one.annotation)}{default}`"
            yield f"- {shown}" + (f": {told}" if told else "")


def as_markdown(docstring: str) -> str:
    """A docstring on a page: what is set in columns there, or drawn, stays so; what is explained
    name by name becomes a list."""
    parts = []
    for paragraph in docstring.split("\n\n"):
        lines = paragraph.split("\n")
        if len(lines) > 1 and re.fullmatch("-{3,}", lines[1]):
            parts.append(_as_list(lines[2:]))
        elif any(re.search(r"\S {2,}\S|^    ", line) for line in lines):
            parts.append(_fenced(textwrap.dedent(paragraph)))
        else:
            parts.append(paragraph)
    return "\n\n".join(parts).replace("\n```\n\n```text\n", "\n\n")


def _as_list(lines: list[str]) -> str:
    """`name`, and below it, further in, what it means."""
    items: list[str] = []
    for line in lines:
        if line.startswith(" "):
            items[-1] += f" {line.strip()}"
        else:
            items.append(f"- `{line}`:")
    return "\n".join(items)


def _module_docstring(value: object) -> str:
    module = inspect.getmodule(value)
    return inspect.cleandoc(module.__doc__ or "") if module is not None else ""


def _text_of(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _constant_docstring(package: str, name: str) -> str:
    """What stands below a constant, in the package or in the module it was imported from."""
    package_tree = ast.parse(inspect.getsource(sys.modules[package]))
    module = package
    for node in ast.walk(package_tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            if any((alias.asname or alias.name) == name for alias in node.names):
                module = node.module
    if module == package:
        body = package_tree.body
    else:
        body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for one, following in zip(body, [*body[1:], None], strict=True):
        targets: list[ast.expr] = []
        if isinstance(one, ast.Assign):
            targets = one.targets
        elif isinstance(one, ast.AnnAssign):
            targets = [one.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return _text_of(following)
    return ""


def _definition(value: object) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef:
    assert inspect.isclass(value) or inspect.isroutine(value)
    node = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    module = inspect.getmodule(value)
    names = vars(module) if module is not None else {}
    for one in ast.walk(node):
        if isinstance(one, ast.arguments):
            one.defaults = [_spelled_out(default, names) for default in one.defaults]
            one.kw_defaults = [
                default and _spelled_out(default, names) for default in one.kw_defaults
            ]
    return node


def _spelled_out(default: ast.expr, names: Mapping[str, object]) -> ast.expr:
    """The value of a constant instead of its name, if a reader can make something of it."""
    value = names.get(default.id) if isinstance(default, ast.Name) else None
    return ast.Constant(value) if isinstance(value, int | float | str) else default


def _signature(
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, *, as_name: str = ""
) -> str:
    """As it was typed, without `self`; one line, or one for each argument."""
    assert not isinstance(node, ast.ClassDef)
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    arguments = node.args
    for group in (arguments.posonlyargs, arguments.args):
        if group and group[0].arg in ("self", "cls"):
            del group[0]
    returned = f" -> {ast.unparse(node.returns)}" if node.returns and not as_name else ""
    name = as_name or node.name
    if "property" in marks:
        return f"{name}: {ast.unparse(node.returns) if node.returns else 'object'}"
    head = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    line = f"{head}{name}({ast.unparse(arguments)}){returned}"
    if len(line) <= SIGNATURE_COLUMNS_MAX:
        return line
    inside = "".join(f"    {one},\n" for one in _pieces(arguments))
    return f"{head}{name}(\n{inside}){returned}"


def _pieces(arguments: ast.arguments) -> Iterator[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for one, default in zip(plain, defaults, strict=True):
        yield _piece(one, default)
    if arguments.vararg is not None:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _piece(one, default)
    if arguments.kwarg is not None:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _piece(one: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(one)
    equals = " = " if one.annotation is not None else "="
    return f"{ast.unparse(one)}{equals}{ast.unparse(default)}"


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"
