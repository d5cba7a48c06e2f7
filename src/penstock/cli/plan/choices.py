"""The charts of choice: a queue or something else, which guarantee, which kind of queue, and how it
is run.

Each is a tree of questions that are answered by yes or no, the same as in docs/guides/choose.md.
Pure: answers in, a recommendation with its commands out.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.cli.plan.advice import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE

Ask = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A leaf of a decision chart."""

    name: str
    how: str
    """The way to get it in Penstock."""
    create: str = ""
    """The command that makes it, for a queue or topic NAME."""
    guarantee: str = ""
    order: str = ""
    """The matching value of `penstock plan --order`, if there is one."""
    ends: bool = False
    """True if the remaining charts do not apply."""


@dataclass(frozen=True, slots=True)
class Question:
    """A yes-or-no question of a decision chart."""

    text: str
    yes: "Question | Choice"
    no: "Question | Choice"


@dataclass(frozen=True, slots=True)
class Chart:
    """A decision chart."""

    title: str
    start: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A path through a decision chart."""

    chart: str
    answers: tuple[tuple[str, bool], ...]
    choice: Choice


QUEUE = "penstock queue create NAME"
"""With a delivery limit, growing waits and a dead-letter queue, as every new queue has them."""

USE = Chart(
    "A queue, a log, or a call",
    Question(
        "Does the caller need the answer to go on?",
        Question(
            "May the call fail while the other side is down?",
            Choice(
                name="a direct call, no broker",
                how="call the service, with a deadline and a circuit breaker",
                ends=True,
            ),
            Choice(
                name="request and reply over a queue",
                how="penstock.patterns.request_reply: the answer comes back on a queue of its own",
            ),
        ),
        Question(
            "Is each message for one worker, which is then done with it?",
            Question(
                "Is a message a task, that is a call of a Python function?",
                Question(
                    "Do tasks wait for the results of other tasks (chains, chords)?",
                    Choice(
                        name="a queue, with Celery's canvas above it",
                        how="Celery runs on the SQS port; a workflow engine is the other way",
                    ),
                    Choice(
                        name="a queue, with workers",
                        how='@app.worker("NAME") and `penstock work MODULE:app`',
                    ),
                ),
                Choice(name="a queue", how='client.queue("NAME"), SQS, HTTP, Kafka share groups'),
            ),
            Question(
                "Do several programs read every message in order, without settling each?",
                Choice(
                    name="a topic, with a consumer group for each program",
                    how='client.topic("NAME"), or any Kafka consumer with a group.id',
                    create="penstock topic create NAME --partitions 4",
                ),
                Choice(
                    name="a topic, with a work group for each program",
                    how='client.queue("NAME", group="billing"): leases and retries for each group',
                ),
            ),
        ),
    ),
)
GUARANTEE = Chart(
    "The guarantee",
    Question(
        "Would one lost message be noticed?",
        Question(
            "Is it harmless if the work is done twice, or can it be made so?",
            Choice(
                name="at least once, with idempotent work",
                how="the default: work, then acknowledge",
                guarantee=AT_LEAST_ONCE,
            ),
            Question(
                "Is the effect a change in one database?",
                Question(
                    "Is that worth a transaction and a row for each message?",
                    Choice(
                        name="an effect exactly once",
                        how="note the message's id in the same transaction:"
                        ' @app.worker("NAME", processed=SqliteProcessed("NAME.db"))',
                        guarantee=EXACTLY_ONCE,
                    ),
                    Choice(
                        name="at least once, and a unique key in the database",
                        how="the second insert of the same key fails, and is acknowledged",
                        guarantee=AT_LEAST_ONCE,
                    ),
                ),
                Question(
                    "Does the other side take an idempotence key?",
                    Choice(
                        name="at least once, with the message's id as the key",
                        how="pass message.id on: it is the same at every delivery",
                        guarantee=AT_LEAST_ONCE,
                    ),
                    Choice(
                        name="at least once, and a reconciliation",
                        how="compare both sides now and then, and mend what differs",
                        guarantee=AT_LEAST_ONCE,
                    ),
                ),
            ),
        ),
        Choice(
            name="at most once",
            how="acknowledge, then work: guarantee=Guarantee.AT_MOST_ONCE",
            guarantee=AT_MOST_ONCE,
        ),
    ),
)
KIND = Chart(
    "The kind of queue",
    Question(
        "Must messages be handled in order?",
        Question(
            "Is it enough if those of one customer, account or order are in order?",
            Choice(
                name="a FIFO queue, with the customer as the message group",
                how='await queue.send(body, message_group="customer-7")',
                create=f"{QUEUE} --order fifo",
                order="key",
            ),
            Question(
                "Is one reader fast enough for all of them?",
                Choice(
                    name="a topic with one partition",
                    how="one partition is one order, and one reader at a time",
                    create="penstock topic create NAME --partitions 1",
                    order="total",
                ),
                Choice(
                    name="order by a key that is still to be found",
                    how="no system gives one order and many readers; look for what divides the"
                    " messages, and make it the message group",
                    create=f"{QUEUE} --order fifo",
                    order="key",
                ),
            ),
        ),
        Question(
            "Are some messages more urgent than others?",
            Question(
                "Are they a few classes, with workers of their own?",
                Choice(
                    name="a queue for each class",
                    how="urgent work never waits behind bulk work, nor for its workers",
                    create=f"{QUEUE.replace('NAME', 'NAME-urgent')}",
                    order="none",
                ),
                Choice(
                    name="a queue with priorities",
                    how='priority=0 to 9; "weighted" instead of "strict" lets the low ones have a'
                    " share",
                    create=f"{QUEUE} --priority strict",
                    order="none",
                ),
            ),
            Choice(
                name="a standard queue",
                how="the oldest first, as well as possible; a slow message holds up no other",
                create=QUEUE,
                order="none",
            ),
        ),
    ),
)
RUN = Chart(
    "How it is run",
    Question(
        "Must messages outlive the program that holds them?",
        Question(
            "Must they survive the loss of a machine?",
            Question(
                "Is all of it in one cloud, whose own queue does what you need?",
                Choice(
                    name="the cloud's queue",
                    how="nobody offers Penstock as a service; written for the API of SQS, a program"
                    " runs with both, and its tests with Penstock",
                ),
                Choice(
                    name="three nodes",
                    how="an acknowledged message is on two disks at least: `penstock generate"
                    " compose` or `penstock generate kubernetes` write the files",
                ),
            ),
            Question(
                "Do several programs use it?",
                Choice(name="one broker", how="one process: `penstock serve --data DIRECTORY`"),
                Choice(
                    name="no broker: a directory in your program",
                    how='penstock.connect("file:./data"), with nothing to run beside it',
                ),
            ),
        ),
        Choice(
            name="no broker: memory in your program",
            how='penstock.connect("memory:"), for tests and for work that may be forgotten',
        ),
    ),
)
CHARTS = (USE, GUARANTEE, KIND, RUN)


def choose(ask: Ask) -> list[Chosen]:
    """Go through the charts; `ask` answers each question. A choice that ends leaves out the rest,
    and one that is a topic for readers leaves out the kind of queue."""
    found: list[Chosen] = []
    for chart in CHARTS:
        if chart is KIND and found[0].choice.create:
            continue  # The first chart has named what to make.
        chosen = walk(chart, ask)
        found.append(chosen)
        if chosen.choice.ends:
            break
    return found


def walk(chart: Chart, ask: Ask) -> Chosen:
    """Ask the questions of one chart and return the path."""
    answers: list[tuple[str, bool]] = []
    at: Question | Choice = chart.start
    while isinstance(at, Question):
        answer = ask(at.text)
        answers.append((at.text, answer))
        at = at.yes if answer else at.no
    return Chosen(chart=chart.title, answers=tuple(answers), choice=at)


def recommendation(found: list[Chosen]) -> list[str]:
    """Return a sentence for each chart, and the commands that create the result."""
    lines = [f"{one.chart}: {one.choice.name} ({one.choice.how})" for one in found]
    return [*lines, *(f"Make it: {one.choice.create}" for one in found if one.choice.create)]
