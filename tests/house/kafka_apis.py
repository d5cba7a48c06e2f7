"""Writes docs/reference/kafka-apis.md from the table of APIs and the cards that open their files.

A card is the docstring of an API's file: what it is in one sentence, then four sections, each a
word at the margin and a text beside it.
"""

import re
import sys
from collections.abc import Iterator

from penstock.kafka.api import Api
from penstock.kafka.table import APIS

SECTIONS = ("Versions", "Behaviour", "KIPs", "Not served")

INTRODUCTION = """\
What the Kafka port serves, key by key. Clients find this out by themselves: ApiVersions is answered
from the same table. A request for another API, or for a version that is not listed, closes the
connection with a line in the log, as in Kafka."""


def kafka_apis_page() -> str:
    """docs/reference/kafka-apis.md."""
    lines = [
        "# Kafka APIs",
        "",
        "Generated from the code; `pytest tests/house --rewrite` renews it.",
        "",
        INTRODUCTION,
        "",
        "| key | API | served | advertised |",
        "|---|---|---|---|",
    ]
    for api in APIS:
        served, advertised = _versions(*api.served), _versions(*api.advertised)
        lines.append(f"| {api.key} | [{api.name}](#{api.name.lower()}) | {served} | {advertised} |")
    for api in APIS:
        lines += ["", f"## {api.name}", ""]
        title, sections = delivery_headers(api)
        lines.append(title)
        for section in SECTIONS[1:]:
            lines += ["", f"**{section}.** {sections[section]}"]
    return "\n".join(lines) + "\n"


def delivery_headers(api: Api) -> tuple[str, dict[str, str]]:
    """The sentence and the sections of an API's card."""
    code = api.handle or api.start
    assert code is not None, f"{api.name} has no code"
    text = sys.modules[code.__module__].__doc__
    assert text, f"{api.name} has no card"
    first, _, rest = text.partition("\n\n")
    heading, _, title = " ".join(first.split()).partition(": ")
    assert heading == f"{api.name}, key {api.key}", f"the card of {api.name} is headed {heading}"
    sections = dict(_sections(rest))
    assert tuple(sections) == SECTIONS, f"{api.name}: the sections are {tuple(sections)}"
    return title[0].upper() + title[1:], sections


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Sections start at the margin with their word; what is deeper goes on with the last."""
    words = "|".join(SECTIONS)
    for match in re.finditer(rf"^({words})  +(.*(?:\n  +.*)*)", text, re.MULTILINE):
        yield match[1], " ".join(match[2].split())


def _versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"
