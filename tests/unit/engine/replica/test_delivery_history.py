"""The delivery history: what is written down, how far back it reaches, and that it stays small."""

from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Offset, PartitionId, Term, TopicId
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.replica.delivery_history import PAGE_BYTES, DeliveryHistory, Line
from penstock.machines.group_commands import DeleteGroup, StoreOffsets, encode_group_command
from penstock.machines.groups import GroupUpdated
from penstock.machines.machine import Appended, Refused, Reply
from penstock.machines.queue_commands import (
    Acquire,
    Purge,
    QueueCommand,
    ResetWork,
    Settle,
    Settlement,
    TurnClock,
    encode_queue_command,
)
from penstock.machines.queues import Acquired, CumulativeAckResult, QueueChanged, Settled
from penstock.machines.work_records import GrantedRun

PARTITION = PartitionId(3)
RUN = GrantedRun(Offset(10), Offset(1_000), 1, 5)
LEASED = Acquired(7, 30_000, (RUN,))


class Book:
    """A history, and the index of the next entry."""

    def __init__(self, first: int = 1, bytes_max: int = 1 << 20) -> None:
        self.history = DeliveryHistory(bytes_max)
        self.index = first

    def apply(self, payload: bytes, reply: Reply, kind: EntryKind = EntryKind.COMMAND) -> None:
        self.history.note(Entry(Index(self.index), Term(1), kind, payload), (reply,))
        self.index += 1

    def command(self, command: QueueCommand, reply: Reply) -> None:
        self.apply(encode_queue_command(command, stamp_ms=self.index), reply)

    def lines(self) -> list[Line]:
        return [line for page in self.history.pages() for line in page]


def acquire() -> Acquire:
    return Acquire(partition=PARTITION, group="g", messages_max=10, receiver="somebody")


def settle(count: int) -> Settle:
    settlements = tuple(
        Settlement(Offset(number), Offset(number + 1), 7, Verdict.ACK) for number in range(count)
    )
    return Settle(partition=PARTITION, group="g", settlements=settlements)


def test_what_is_written_down() -> None:
    book = Book()
    book.command(acquire(), LEASED)
    book.command(acquire(), Acquired(7, 30_000, ()))
    book.command(settle(1), Settled((Outcome.DONE,)))
    book.command(settle(1), Refused("UnknownWork", "there is none"))
    book.command(TurnClock(), QueueChanged())
    book.command(Purge(partition=PARTITION, group="g"), QueueChanged(3))
    book.command(ResetWork(partition=PARTITION, group="g", start=Offset(0)), QueueChanged())
    book.command(acquire(), CumulativeAckResult(0, Offset(1)))
    stored = StoreOffsets(
        group="g",
        member="m",
        instance=None,
        generation=-1,
        offsets=((TopicId(b"t" * 16), 0, 5, -1, ""),),
    )
    book.apply(encode_group_command(stored, stamp_ms=1), GroupUpdated())
    book.apply(encode_group_command(DeleteGroup(group="g"), stamp_ms=1), GroupUpdated())
    book.apply(b"batches", Appended(PARTITION, Offset(0), Offset(1)), EntryKind.APPEND)
    assert [line.index for line in book.lines()] == [1, 3, 6, 7, 9], "what did nothing is no line"
    first, second, *_ = book.lines()
    assert (first.epoch, first.until_ms, first.runs) == (7, 30_000, (RUN,))
    assert second.outcomes == (Outcome.DONE,)


def test_a_line_costs_what_its_command_does() -> None:
    few, many = Book(), Book()
    few.command(acquire(), Acquired(7, 30_000, (RUN._replace(end=Offset(11)),)))
    many.command(acquire(), LEASED)
    assert abs(many.history.bytes - few.history.bytes) <= 2, (
        "a thousand messages are no more than one"
    )


def test_the_oldest_goes_first_and_is_known_to_be_missing() -> None:
    bound = 8 * PAGE_BYTES
    book = Book(first=41, bytes_max=bound)
    assert book.history.first_index == 0
    book.command(acquire(), LEASED)
    assert book.history.first_index == 41
    while book.history.first_index == 41:
        book.command(settle(100), Settled((Outcome.DONE,) * 100))
    for _ in range(1_000):
        book.command(acquire(), LEASED)
    assert book.history.bytes <= bound + PAGE_BYTES
    first = book.history.first_index
    assert first > 41
    assert [line.index for line in book.lines()] == list(range(first, book.index))
    assert len(book.history) == book.index - first


def test_a_gap_begins_anew() -> None:
    book = Book()
    book.command(acquire(), LEASED)
    book.index = 500  # A snapshot took the place of what was in between.
    book.apply(b"", LEASED, EntryKind.NOOP)
    assert (book.history.first_index, book.lines()) == (500, [])
    book.command(acquire(), LEASED)
    assert [line.index for line in book.lines()] == [501]


def test_reading_goes_on_while_lines_are_written() -> None:
    book = Book()
    for _ in range(2_000):
        book.command(acquire(), LEASED)
    pages = book.history.pages()
    seen = len(next(pages))
    book.command(acquire(), LEASED)
    seen += sum(len(page) for page in pages)
    assert seen == 2_000
