"""The files the house rules apply to, read once."""

import ast
import io
import tokenize
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_NOT_OURS = {
    ".git",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "data",
    "dist",
}
_TEXT_SUFFIXES = {".cfg", ".lock", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
_TEXT_NAMES = {".editorconfig", ".gitignore", "Makefile", "run", "py.typed"}


class Source:
    """One text file of the repository, by its path from the root."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @cached_property
    def comments(self) -> tuple[tuple[int, str], ...]:
        """Each with the number of its line."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return tuple(
            (token.start[0], token.string.lstrip("# ").rstrip())
            for token in tokens
            if token.type == tokenize.COMMENT
        )

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_markdown(self) -> bool:
        return self.path.endswith(".md")

    @property
    def module(self) -> str:
        """The dotted name under which others import it."""
        dotted = self.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
        return dotted.removesuffix(".__init__")

    def within(self, *folders: str) -> bool:
        return self.path.startswith(tuple(f"{folder}/" for folder in folders))


def read_sources() -> list[Source]:
    """Every text file of ours, sorted by path."""
    sources = []
    pending = [ROOT]
    while pending:
        for path in pending.pop().iterdir():
            if path.is_dir():
                if path.name not in _NOT_OURS and not path.name.endswith(".egg-info"):
                    pending.append(path)
            elif path.suffix in _TEXT_SUFFIXES or path.name in _TEXT_NAMES:
                sources.append(Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")))
    return sorted(sources, key=lambda source: source.path)
