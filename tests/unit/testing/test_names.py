"""Which names a power cut leaves."""

from collections.abc import Callable
from random import Random

from penstock.testing.names import JournaledNames
from penstock.testing.page_cache import CachedFile


def outcomes(prepare: Callable[[JournaledNames], None]) -> set[tuple[str, ...]]:
    """Every set of file names that many power cuts left."""
    left = set()
    for seed in range(200):
        names = JournaledNames()
        prepare(names)
        names.crash(Random(seed))
        left.add(tuple(path for path, _ in names.files()))
    return left


def make(names: JournaledNames, *paths: str) -> None:
    for path in paths:
        names.make(path, CachedFile(path))


def test_a_new_name_may_vanish_until_its_directory_is_synced() -> None:
    assert outcomes(lambda names: make(names, "/a")) == {(), ("/a",)}

    def make_and_sync(names: JournaledNames) -> None:
        make(names, "/a")
        names.sync("/")

    assert outcomes(make_and_sync) == {("/a",)}


def test_changes_survive_in_order() -> None:
    def change(names: JournaledNames) -> None:
        make(names, "/a", "/b")
        names.remove("/a")

    assert outcomes(change) == {(), ("/a",), ("/a", "/b"), ("/b",)}


def test_a_rename_leaves_the_old_or_the_new() -> None:
    def replace(names: JournaledNames) -> None:
        make(names, "/new", "/old")
        names.sync("/")
        names.rename("/new", "/old")

    assert outcomes(replace) == {("/new", "/old"), ("/old",)}


def test_a_rename_keeps_the_file_it_moved() -> None:
    names = JournaledNames()
    make(names, "/new", "/old")
    new = names.get("/new")
    names.rename("/new", "/old")
    names.sync("/")
    names.crash(Random(0))
    assert names.get("/old") is new


def test_a_removed_file_may_come_back() -> None:
    def remove(names: JournaledNames) -> None:
        make(names, "/a")
        names.sync("/")
        names.remove("/a")

    assert outcomes(remove) == {("/a",), ()}


def test_syncing_one_directory_leaves_the_others_alone() -> None:
    def two(names: JournaledNames) -> None:
        names.make("/x", None)
        names.make("/y", None)
        names.sync("/")
        make(names, "/x/a", "/y/b")
        names.sync("/y")

    assert outcomes(two) == {("/y/b",), ("/x/a", "/y/b")}


def test_a_rename_between_directories_brings_along_what_it_rests_on() -> None:
    def move(names: JournaledNames) -> None:
        names.make("/aside", None)
        names.sync("/")
        make(names, "/aside/a", "/aside/b")
        names.rename("/aside/a", "/a")
        make(names, "/aside/c")
        names.sync("/")

    assert outcomes(move) == {
        ("/a", "/aside/b"),
        ("/a", "/aside/b", "/aside/c"),
    }


def test_a_directory_takes_its_content_along() -> None:
    def nested(names: JournaledNames) -> None:
        names.make("/x", None)
        names.make("/x/y", None)
        make(names, "/x/y/a")
        names.sync("/x/y")

    assert outcomes(nested) == {(), ("/x/y/a",)}


def test_every_level_must_be_synced() -> None:
    def nested(names: JournaledNames) -> None:
        names.make("/x", None)
        names.make("/x/y", None)
        make(names, "/x/y/a")
        for directory in ("/x/y", "/x", "/"):
            names.sync(directory)

    assert outcomes(nested) == {("/x/y/a",)}


def test_the_loss_is_counted() -> None:
    lost = set()
    for seed in range(50):
        names = JournaledNames()
        make(names, "/a", "/b")
        count = names.crash(Random(seed))
        assert count == 2 - len(names.files())
        lost.add(count)
    assert lost == {0, 1, 2}
