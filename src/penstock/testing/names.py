"""The names on an in-memory disk: the current ones, and those that survive a power cut.

Making, renaming and removing are journaled in order. `sync` of a directory makes the changes to its
names durable, together with the earlier ones they rest on (a rename into it needs the creation
elsewhere). A power cut leaves a random prefix of the rest. A rename is one change: afterwards there
is the old file or the new one, never neither.

Syncing a directory does *not* make the directory's own name durable: that is for its parent. If the
name is lost, so is everything in it. ext4 happens to be kinder; POSIX is not.

Only files are renamed and removed; nothing in Penstock renames or removes a directory.
"""

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from penstock.testing.page_cache import CachedFile

_ROOTS = ("/", ".")
_Tree = dict[str, dict[str, CachedFile | None]]
"""Directory -> name -> file, or None for a directory."""


@dataclass(frozen=True, slots=True)
class _Change:
    """`gone` loses its name; `made` becomes the name of `file`, or of a directory if None."""

    gone: str | None
    made: str | None
    file: CachedFile | None

    def directories(self) -> set[str]:
        return {split(path)[0] for path in (self.gone, self.made) if path is not None}


class JournaledNames:
    """Two trees of names, and the changes between them in order. Paths are in normal form."""

    def __init__(self) -> None:
        self._now: _Tree = {root: {} for root in _ROOTS}
        self._durable: _Tree = {root: {} for root in _ROOTS}
        self._unsynced: list[_Change] = []

    def get(self, path: str) -> CachedFile | None:
        """The file of this name, if there is one."""
        directory, name = split(path)
        return self._now.get(directory, {}).get(name)

    def is_directory(self, path: str) -> bool:
        return path in self._now

    def listing(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(self._now[directory])

    def files(self) -> list[tuple[str, CachedFile]]:
        """Every file there is now, with its path, sorted."""
        return sorted(
            (normal(posixpath.join(directory, name)), file)
            for directory, names in self._now.items()
            for name, file in names.items()
            if file is not None
        )

    def make(self, path: str, file: CachedFile | None) -> None:
        """Give a file its first name; None makes a directory."""
        self._change(_Change(gone=None, made=path, file=file))

    def rename(self, source: str, target: str) -> None:
        self._change(_Change(gone=source, made=target, file=self.get(source)))

    def remove(self, path: str) -> None:
        self._change(_Change(gone=path, made=None, file=None))

    def sync(self, directory: str) -> None:
        """Make the changes in a directory durable, and those they rest on."""
        needed = {directory}
        now: list[_Change] = []
        later: list[_Change] = []
        for change in reversed(self._unsynced):
            directories = change.directories()
            if needed & directories:
                needed |= directories
                now.append(change)
            else:
                later.append(change)
        for change in reversed(now):
            _apply(self._durable, change)
        self._unsynced = later[::-1]

    def crash(self, random: Random) -> int:
        """Decide which names a power cut leaves; returns how many changes it lost."""
        kept = random.randrange(len(self._unsynced) + 1)
        lost = len(self._unsynced) - kept
        for change in self._unsynced[:kept]:
            _apply(self._durable, change)
        self._unsynced.clear()
        _drop_unreachable(self._durable)
        self._now = {directory: dict(names) for directory, names in self._durable.items()}
        return lost

    def fork(self, twin: Callable[[CachedFile], CachedFile]) -> "JournaledNames":
        """Return a copy with the same names for copies of the files."""

        def twin_or_none(file: CachedFile | None) -> CachedFile | None:
            return None if file is None else twin(file)

        copy = JournaledNames()
        for source, target in ((self._now, copy._now), (self._durable, copy._durable)):
            for directory, names in source.items():
                target[directory] = {name: twin_or_none(file) for name, file in names.items()}
        copy._unsynced = [
            _Change(gone=change.gone, made=change.made, file=twin_or_none(change.file))
            for change in self._unsynced
        ]
        return copy

    def _change(self, change: _Change) -> None:
        _apply(self._now, change)
        self._unsynced.append(change)


def _apply(tree: _Tree, change: _Change) -> None:
    if change.gone is not None:
        directory, name = split(change.gone)
        del tree[directory][name]
    if change.made is not None:
        directory, name = split(change.made)
        # The directory may be missing in the durable tree: its own name is not durable yet.
        tree.setdefault(directory, {})[name] = change.file
        if change.file is None:
            tree.setdefault(change.made, {})


def _drop_unreachable(tree: _Tree) -> None:
    """Remove the directories whose own name, or a parent's, did not survive."""
    for directory in sorted(tree):  # A parent sorts before its children.
        if directory not in _ROOTS:
            parent, name = split(directory)
            if name not in tree.get(parent, {}):
                del tree[directory]


@lru_cache(maxsize=4096)
def normal(path: str) -> str:
    """Normalise a path."""
    return posixpath.normpath(path)


@lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, str]:
    """The directory and the name of a path in normal form."""
    directory, name = posixpath.split(path)
    return directory or ".", name
