"""`penstock topic …`: make, look at, change and delete topics, over the native protocol.

A queue is a topic with a work group and settings of its own; `penstock queue` knows more of those.
"""

import sys
from typing import Annotated

import msgspec
from cyclopts import App, CycloptsError, Parameter

from penstock.cli.address_flags import DEFAULT_URL, Url
from penstock.cli.admin import Json, Yes, ask_back, print_json
from penstock.cli.session import with_client
from penstock.cli.table import print_table
from penstock.client.client import Client
from penstock.client.descriptions import TopicDescription
from penstock.core.internal_topics import is_internal
from penstock.core.topic_configs import TOPIC_CONFIGS

app = App(name="topic", help="Create, show, change and delete topics.")

Name = Annotated[str, Parameter(help="The name of the topic.")]
Given = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        metavar="NAME=VALUE",
        negative="",
        show_default=False,
        help="A topic config, such as retention.ms=86400000; may be repeated.",
    ),
]


@app.command
def create(
    name: Name,
    /,
    *,
    partitions: Annotated[
        int | None,
        Parameter(
            name=["--partitions", "-p"], help="The number of partitions; by default the broker's."
        ),
    ] = None,
    given: Given = (),
    exist_ok: Annotated[
        bool, Parameter(negative="", show_default=False, help="Do not fail if the topic exists.")
    ] = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Create a topic.

    Examples
    --------
    penstock topic create orders --partitions 6
    penstock topic create prices --set cleanup.policy=compact
    penstock topic create orders --exist-ok --url penstock://127.0.0.1:9092
    """
    configs = _pairs(given)

    async def work(client: Client) -> TopicDescription:
        return await client.create_topic(
            name, partitions=partitions, configs=configs, exist_ok=exist_ok
        )

    made = with_client(url, work, makes_directory=True)
    if json:
        print_json(document(made))
    else:
        print(f"topic {name} is there, with {_parts(len(made.partitions))}")


@app.command(name="list")
def list_topics(
    *,
    prefix: Annotated[str, Parameter(show_default=False, help="Only names with this prefix.")] = "",
    internal: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Include internal topics of the cluster, whose names begin with __.",
        ),
    ] = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """List the topics and queues.

    Examples
    --------
    penstock topic list
    penstock topic list --prefix shop- --json
    penstock topic list --internal
    """

    async def work(client: Client) -> list[tuple[str, int, bool]]:
        return [
            (one.name, one.partitions, one.is_queue)
            for one in await client.topics()
            if one.name.startswith(prefix) and (internal or not is_internal(one.name))
        ]

    found = with_client(url, work)
    if json:
        print_json(
            [
                {"name": name, "partitions": partitions, "is_queue": is_queue}
                for name, partitions, is_queue in found
            ]
        )
    elif found:
        rows = [(name, parts, "queue" if queue else "topic") for name, parts, queue in found]
        print_table(("TOPIC", "PARTITIONS", "KIND"), rows)
    else:
        print("there are no topics; make one: penstock topic create NAME", file=sys.stderr)


@app.command
def describe(name: Name, /, *, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Show a topic's partitions with their leaders and offsets, and its configs.

    Examples
    --------
    penstock topic describe orders
    penstock topic describe orders --json
    """

    async def work(client: Client) -> TopicDescription:
        return await client.describe_topic(name)

    found = with_client(url, work)
    if json:
        print_json(document(found))
        return
    kind = "queue" if found.is_queue else "topic"
    print(f"{kind} {found.name}: {_parts(len(found.partitions))}\n")
    print_table(
        ("PARTITION", "LEADER", "START", "END", "MESSAGES"),
        [
            (one.index, one.leader or "-", one.start, one.end, one.end - one.start)
            for one in found.partitions
        ],
    )
    if found.configs:
        print()
        width = max(map(len, found.configs))
        for key, value in sorted(found.configs.items()):
            print(f"{key:<{width}}  {value}")


@app.command
def config(
    name: Name,
    /,
    *,
    given: Given = (),
    unset: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="NAME",
            negative="",
            show_default=False,
            help="Reset a config to its default; may be repeated.",
        ),
    ] = (),
    partitions: Annotated[
        int | None,
        Parameter(help="Total number of partitions; keys map to other partitions than before."),
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Show every config of a topic and its source, or change configs.

    Examples
    --------
    penstock topic config orders
    penstock topic config orders --set retention.ms=86400000 --unset cleanup.policy
    penstock topic config orders --partitions 12
    """
    changes: dict[str, str | None] = {**_pairs(given), **dict.fromkeys(unset)}

    async def work(client: Client) -> TopicDescription:
        if changes:
            await client.configure(name, changes)
        if partitions is not None:
            await client.add_partitions(name, partitions)
        return await client.describe_topic(name)

    found = with_client(url, work)
    if changes or partitions is not None:
        print(f"topic {name} is configured", file=sys.stderr)
    if json:
        print_json(found.configs)
        return
    rows = [
        (key, found.configs.get(key, _default(key)), "set" if key in found.configs else "default")
        for key in sorted({*TOPIC_CONFIGS, *found.configs})
    ]
    print_table(("CONFIG", "VALUE", "SOURCE"), rows)


@app.command
def delete(name: Name, /, *, yes: Yes = False, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Delete a topic with every message in it.

    Examples
    --------
    penstock topic delete orders
    penstock topic delete orders --yes
    """
    if not yes:
        ask_back(
            name,
            warning=f"This would delete topic {name} and all its messages.",
            kept=f"the name does not match; {name} stays",
            cannot=f"deleting {name} cannot be undone",
        )

    async def work(client: Client) -> None:
        await client.delete_topic(name)

    with_client(url, work)
    if json:
        print_json({"deleted": name})
    else:
        print(f"topic {name} is deleted")


def document(found: TopicDescription) -> dict[str, object]:
    """The topic as a JSON document."""
    return {
        "name": found.name,
        "id": str(found.id),
        "is_queue": found.is_queue,
        "partitions": [
            {"index": one.index, "leader": one.leader, "start": one.start, "end": one.end}
            for one in found.partitions
        ],
        "configs": dict(found.configs),
    }


def _default(key: str) -> str:
    known = TOPIC_CONFIGS.get(key)
    return "-" if known is None else str(msgspec.to_builtins(known.default))


def _parts(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise CycloptsError(msg=f'--set = "{one}" must be NAME=VALUE.')
        pairs[key] = value
    return pairs
