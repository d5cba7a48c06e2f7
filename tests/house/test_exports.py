"""What packages export, and that the drawn tree of errors is the real one.

An `__init__.py` holds a docstring, imports and a sorted `__all__`, and everything it imports is in
`__all__`: a reader finds no code there, and a name is public because someone wrote it down.
"""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

import penstock
from penstock.core import errors
from penstock.core.public_names import PLACES
from penstock.spark.public_names import PLACES as SPARK_PLACES
from tests.house.sources import ROOT, Source, read_sources

PACKAGES = [
    source for source in read_sources() if re.fullmatch(r"src/penstock/.*__init__\.py", source.path)
]


def lazily_imported(block: ast.If) -> dict[str, str]:
    """Names that a type checker sees and `core.public_names` loads, and their modules."""
    return {
        alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def complaints_about(source: Source) -> Iterator[str]:
    """Why an `__init__.py` is not what it should be."""
    exported: list[str] | None = None
    imported: list[str] = []
    for node in source.tree.body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.ImportFrom(module="typing"):
                pass
            case ast.ImportFrom():
                imported += [alias.asname or alias.name for alias in node.names]
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                imported += lazily_imported(node)
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                exported = ast.literal_eval(node.value)
            case ast.Assign(targets=[ast.Name(id="__version__")]):
                imported.append("__version__")
            case _:
                yield f"line {node.lineno}: only imports and __all__ belong here"
    if imported and exported is None:
        yield "it imports but has no __all__"
    if exported is not None:
        if exported != sorted(exported):
            yield f"__all__ is not sorted; it should be {sorted(exported)}"
        for name in sorted(set(imported).symmetric_difference(exported)):
            yield f"{name} is imported but not in __all__, or the reverse"


@pytest.mark.parametrize("source", PACKAGES, ids=lambda source: source.module)
def test_an_init_only_exports(source: Source) -> None:
    assert list(complaints_about(source)) == []
    module = importlib.import_module(source.module)
    for name in getattr(module, "__all__", ()):
        assert hasattr(module, name), f"{source.module} has no {name}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def f(): pass", "line 1: only imports"),
        ("x = 1", "line 1: only imports"),
        ("from a import b", "no __all__"),
        ("from a import b, c\n__all__ = ['c', 'b']", "not sorted"),
        ("from a import b, c\n__all__ = ['b']", "c is imported but not in __all__"),
        ("from a import b\n__all__ = ['b', 'd']", "d is imported but not in __all__"),
    ],
)
def test_a_bad_init_is_found(text: str, complaint: str) -> None:
    found = list(complaints_about(Source("src/penstock/a/__init__.py", text)))
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("package", "places"), [("penstock", PLACES), ("penstock.spark", SPARK_PLACES)]
)
def test_a_name_is_loaded_from_where_a_type_checker_finds_it(
    package: str, places: dict[str, str]
) -> None:
    source = next(one for one in PACKAGES if one.module == package)
    (block,) = (node for node in source.tree.body if isinstance(node, ast.If))
    assert lazily_imported(block) == places


@pytest.mark.parametrize("package", ["penstock", "penstock.spark"])
def test_importing_the_package_imports_nothing_much(package: str) -> None:
    script = (
        f"import sys, {package}; assert 'pyspark' not in sys.modules;"
        "print(len([m for m in sys.modules if m.startswith('penstock')]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert int(done.stdout) < 10


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert penstock.__version__ == project["version"]


def drawn_tree(docstring: str) -> list[tuple[str, str]]:
    """(class, parent) for each line of a tree drawn as in core/errors.py."""
    path: list[str] = []
    pairs = []
    for line in docstring.splitlines():
        branch = re.match(r"    ((?:│   |    )*)[├└]── (\w+)", line)
        root = re.fullmatch(r"    (\w+)", line.rstrip())
        if root and not path:
            path = [root.group(1)]
            pairs.append((root.group(1), "Exception"))
        elif branch:
            depth = len(branch.group(1)) // 4 + 1
            del path[depth:]
            pairs.append((branch.group(2), path[-1]))
            path.append(branch.group(2))
    return pairs


def defined_tree(tree: ast.Module) -> list[tuple[str, str]]:
    """(class, parent) for each class of a module, in the order of the text."""
    return [
        (node.name, ast.unparse(node.bases[0]))
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]


def test_the_drawn_errors_are_the_defined_ones() -> None:
    source = next(one for one in read_sources() if one.path == "src/penstock/core/errors.py")
    drawn = drawn_tree(errors.__doc__ or "")
    assert drawn == defined_tree(source.tree)
    assert len(drawn) > 20, "the drawing was read"


def test_a_wrong_drawing_is_found() -> None:
    drawing = "Errors.\n\n    A\n    ├── B      text\n    │   └── C\n    └── D\n\nText.\n"
    assert drawn_tree(drawing) == [("A", "Exception"), ("B", "A"), ("C", "B"), ("D", "A")]
    module = ast.parse("class A(Exception): ...\nclass B(A): ...\nclass C(B): ...\nclass D(B): ...")
    assert drawn_tree(drawing) != defined_tree(module)
