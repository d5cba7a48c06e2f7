"""The Python reference says something about every public name, with the real signatures."""

import ast

import pytest

from tests.house import python_api
from tests.house.python_api import Name, undocumented_names


def test_every_public_name_has_a_docstring() -> None:
    assert list(undocumented_names()) == []


def test_help_of_the_package_is_a_tour() -> None:
    """`help(penstock)` opens with what one types first, and names the kinds of addresses."""
    import penstock

    told = penstock.__doc__ or ""
    missing = [
        word
        for word in (
            "penstock.connect(",
            "send",
            "receive",
            "ack",
            "penstock://",
            "file:",
            "memory:",
        )
        if word not in told
    ]
    assert missing == []


# The checkers can fail.


def bare() -> None:
    pass


class Documented:
    """It says what it is."""

    def said(self) -> None:
        """It says what it does."""

    def unsaid(self, one: int, *, two: "str | None" = None) -> int:
        return one if two else 0


def test_a_name_without_a_docstring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        Name(package="p", name="bare", value=bare),
        Name(package="p", name="Documented", value=Documented),
    ]
    monkeypatch.setattr(python_api, "PACKAGES", ("p",))
    monkeypatch.setattr(python_api, "public_names", lambda _package: names)
    monkeypatch.setattr(Documented, "__module__", "penstock.sample")
    monkeypatch.setattr(python_api, "_definition", lambda _value: _parsed(_SOURCE))
    assert list(undocumented_names()) == ["p.bare", "p.Documented.unsaid"]


def test_a_signature_is_what_somebody_typed() -> None:
    said, unsaid, long = _parsed(_SOURCE).body[1:]
    assert isinstance(said, ast.FunctionDef)
    assert isinstance(unsaid, ast.AsyncFunctionDef)
    assert isinstance(long, ast.FunctionDef)
    assert python_api._signature(said) == "said() -> None"
    assert python_api._signature(unsaid) == "async unsaid(one: int, *, two: str='x') -> int"
    assert python_api._signature(long).splitlines() == [
        "long(",
        "    first_argument_of_many: int,",
        "    second_argument_of_many: int = 2,",
        "    *,",
        "    third_argument_of_many: int = 3,",
        "    **others: str,",
        ") -> int",
    ]


DOCSTRING = """What it does.

name      what it is
longer    and the other

Parameters
----------
one
    The first,
    and more.
two
    The second.

    code()

    more()"""

PAGE = """What it does.

```text
name      what it is
longer    and the other
```

- `one`: The first, and more.
- `two`: The second.

```text
code()

more()
```"""


def test_columns_and_code_stay_as_they_are_drawn() -> None:
    assert python_api.as_markdown(DOCSTRING) == PAGE


_SOURCE = '''
class Documented:
    """It says what it is."""

    def said(self) -> None:
        """It says what it does."""

    async def unsaid(self, one: int, *, two: str = "x") -> int:
        return one

    def long(
        self,
        first_argument_of_many: int,
        second_argument_of_many: int = 2,
        *,
        third_argument_of_many: int = 3,
        **others: str,
    ) -> int:
        """It has many."""
        return 1
'''


def _parsed(source: str) -> ast.ClassDef:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.ClassDef)
    return node
