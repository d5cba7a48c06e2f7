"""Whole lives of messages, and the book that accounts for them."""

import asyncio

import pytest

import penstock
from penstock.cli.bench.life import Book, fails, live
from penstock.cli.bench.load import Load, Tally
from penstock.cli.bench.report import exit_code, report_lines
from penstock.cli.bench.run import Outcome
from penstock.cli.bench.share import LoadResult
from penstock.client.descriptions import QueueStats
from tests.unit.engine.nodes import until


def book_of(stored: dict[int, int], *done: tuple[int, int]) -> Book:
    book = Book(stored=stored)
    for sender, number in done:
        book.note_done(sender, number)
    return book


def test_a_book_knows_what_is_missing_and_what_came_twice() -> None:
    whole = book_of({0: 3, 1: 1}, (0, 0), (0, 1), (0, 2), (1, 0))
    assert (whole.stored_all, whole.undone, whole.twice) == (4, 0, 0)
    assert book_of({0: 3}, (0, 0), (0, 2), (0, 2)).undone == 1
    assert book_of({0: 3}, (0, 0), (0, 2), (0, 2)).twice == 1
    assert book_of({0: 3}).undone == 3
    assert book_of({}, (0, 5)).undone == 0, "one whose answer was lost may well be done"


def test_books_of_several_processes_are_added_up() -> None:
    sender = book_of({0: 4}, (0, 0))
    sender.failed, sender.redelivered, sender.doubtful = 1, 2, 3
    receiver = book_of({1: 1}, (0, 2), (0, 3), (0, 0), (1, 0))
    sender.merge(receiver)
    assert (sender.stored_all, sender.undone, sender.twice) == (5, 1, 1)
    assert (sender.failed, sender.redelivered, sender.doubtful) == (1, 2, 3)


@pytest.mark.parametrize(
    ("stats", "lost"),
    [
        (QueueStats(), 2),
        (QueueStats(ready=1), 1),
        (QueueStats(leased=1, delayed=1), 0),
        (QueueStats(dead=1, moved=5), 0),
        (None, None),
        (QueueStats(purged=4, expired=1), 0),
    ],
)
def test_what_is_still_there_is_not_lost(stats: QueueStats | None, lost: int | None) -> None:
    found = LoadResult(book=book_of({0: 3}, (0, 1)))
    outcome = Outcome(load=Load(kind="queue"), found=found, verdict=None, stats=stats)
    assert outcome.lost == lost
    assert exit_code(outcome) == (1 if lost else 0)
    assert (f"LOST: {lost} messages" in "\n".join(report_lines(outcome))) == bool(lost)


def test_what_a_queue_had_done_before_explains_nothing() -> None:
    found = LoadResult(book=book_of({0: 3}, (0, 1)))
    before, after = QueueStats(moved=7, dead=2), QueueStats(moved=8, dead=2)
    load = Load(kind="queue", queue="mine")
    outcome = Outcome(load=load, found=found, verdict=None, stats=after, stats_before=before)
    assert outcome.lost == 1


def test_as_many_fail_as_were_asked_for() -> None:
    for share in (0.0, 0.05, 0.5):
        count = sum(fails(sender, number, share) for sender in range(2) for number in range(5_000))
        assert count == pytest.approx(10_000 * share, rel=0.02)


def test_every_message_lives_and_is_accounted_for() -> None:
    async def work() -> tuple[Tally, Book, QueueStats]:
        load = Load(
            kind="queue",
            messages=200,
            batch=10,
            size_bytes=40,
            clients=2,
            consumers=2,
            fail_share=0.1,
            first_sender=4,
            token=9,
        )
        tally, book = Tally(load, start=0.0), Book()
        async with penstock.connect("memory:") as client:
            await client.create_queue("jobs")
            queue = client.queue("jobs", codec=bytes)
            running = asyncio.create_task(live([queue, queue], [queue, queue], load, tally, book))
            await until(lambda: not tally.sending and tally.done_all >= 200)
            tally.finish()
            await running
            return tally, book, await queue.stats()

    tally, book, stats = asyncio.run(work())
    assert set(book.stored) <= {4, 5}
    assert (book.stored_all, book.undone, book.twice, book.doubtful) == (200, 0, 0, 0)
    assert tally.counted == tally.histograms["done"].count == 200
    assert tally.histograms["receive"].count == 200, "the first delivery of each"
    wanted = sum(
        fails(sender, number, 0.1)
        for sender, count in book.stored.items()
        for number in range(count)
    )
    assert book.failed == book.redelivered == wanted > 0
    assert (stats.acked, stats.depth) == (200, 0)
