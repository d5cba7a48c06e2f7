"""Classes are met by msgspec in one place, under a lock: see `core.decoders` for the reason."""

import ast

import pytest

from tests.house.sources import Source, read_sources

ALLOWED = "src/penstock/core/decoders.py"
SOURCES = [
    one
    for one in read_sources()
    if one.path.startswith("src/penstock/") and one.path.endswith(".py")
]


def complaints_about(source: Source) -> list[str]:
    """Where a module lets msgspec meet a class by itself. TOML is read by commands only."""
    found = []
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        text = ast.unparse(node.func)
        if not text.startswith(("msgspec.json.", "msgspec.msgpack.")):
            continue
        has_type = any(keyword.arg == "type" for keyword in node.keywords)
        if text.endswith(".Decoder") or (text.endswith(".decode") and has_type):
            found.append(f"{source.path}:{node.lineno}: use penstock.core.decoders")
    return found


def test_classes_are_met_in_one_place() -> None:
    found = [line for one in SOURCES if one.path != ALLOWED for line in complaints_about(one)]
    assert found == []


@pytest.mark.parametrize(
    "text", ["msgspec.json.Decoder(A)", "msgspec.msgpack.decode(data, type=A)"]
)
def test_another_place_is_found(text: str) -> None:
    assert complaints_about(Source("src/penstock/a.py", text))
