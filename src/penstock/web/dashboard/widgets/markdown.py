"""Markdown as HTML, as much of it as the runbooks use: headings, paragraphs, lists, tables, blocks
of code; code, strong words, emphasis and links within a line.

Every text is escaped before it becomes HTML. A link is kept if the caller knows where it leads;
otherwise its words remain.
"""

import re
from collections.abc import Callable, Iterator
from html import escape

Target = Callable[[str], str | None]
"""Maps a link of the document to an address on the page."""

_HEADING = re.compile(r"(#{1,4}) (.+)")
_ITEM = re.compile(r"( *)([-*]|\d{1,3}\.) +(.*)")
_RULE_OF_TABLE = re.compile(r"\|[-| :]+\|?")
_SPAN = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*]+)\*"
    r"|\[(?P<words>[^\]]+)\]\((?P<link>[^)]+)\)"
)


def to_html(text: str, target: Target) -> str:
    """Render the document as HTML."""
    return "\n".join(_blocks(text.splitlines(), target))


def _blocks(lines: list[str], target: Target) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif line.lstrip().startswith("```"):
            end = _end(lines, at + 1, lambda one: one.lstrip().startswith("```"))
            indent = len(line) - len(line.lstrip())
            code = "\n".join(one[indent:] for one in lines[at + 1 : end])
            yield f"<pre><code>{escape(code)}</code></pre>"
            at = end + 1
        elif found := _HEADING.fullmatch(line):
            level = len(found[1])
            yield f"<h{level}>{_inline(found[2], target)}</h{level}>"
            at += 1
        elif line.startswith("|"):
            end = _end(lines, at, lambda one: not one.startswith("|"))
            yield from _table(lines[at:end], target)
            at = end
        elif found := _ITEM.fullmatch(line):
            end = _end_of_list(lines, at)
            yield from _list(lines[at:end], target)
            at = end
        else:
            end = _end(lines, at, _ends_paragraph)
            yield f"<p>{_inline(' '.join(lines[at:end]), target)}</p>"
            at = end


def _end(lines: list[str], begin: int, over: Callable[[str], bool]) -> int:
    return next((at for at in range(begin, len(lines)) if over(lines[at])), len(lines))


def _ends_paragraph(line: str) -> bool:
    return not line.strip() or line.startswith(("```", "|", "#")) or bool(_ITEM.fullmatch(line))


def _end_of_list(lines: list[str], begin: int) -> int:
    """Items, what is indented below them, and empty lines between those."""

    def over(at: int) -> bool:
        line = lines[at]
        if line.strip():
            return not line.startswith("  ") and not _ITEM.fullmatch(line)
        rest = next((one for one in lines[at:] if one.strip()), "")
        return not rest.startswith("  ") and not _ITEM.fullmatch(rest)

    return next((at for at in range(begin, len(lines)) if over(at)), len(lines))


def _list(lines: list[str], target: Target) -> Iterator[str]:
    kind = "ol" if lines[0].lstrip()[0].isdigit() else "ul"
    items: list[list[str]] = []
    for line in lines:
        found = _ITEM.fullmatch(line)
        if found is not None and not found[1]:
            items.append([found[3]])
        else:
            items[-1].append(line)
    yield f"<{kind}>"
    for first, *more in items:
        words = [first]
        while more and more[0].strip() and not _ends_paragraph(more[0].lstrip()):
            words.append(more.pop(0).strip())
        indent = min((len(one) - len(one.lstrip()) for one in more if one.strip()), default=0)
        inner = "\n".join(_blocks([one[indent:] for one in more], target))
        yield f"<li>{_inline(' '.join(words), target)}{inner}</li>"
    yield f"</{kind}>"


def _table(lines: list[str], target: Target) -> Iterator[str]:
    rows = [
        [_inline(cell.strip(), target) for cell in line.strip("| ").split("|")]
        for line in lines
        if not _RULE_OF_TABLE.fullmatch(line.strip())
    ]
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in rows[0])
    yield f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>'
    for row in rows[1:]:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def _inline(text: str, target: Target) -> str:
    parts, at = [], 0
    for found in _SPAN.finditer(text):
        parts.append(escape(text[at : found.start()]))
        parts.append(_span(found, target))
        at = found.end()
    return "".join([*parts, escape(text[at:])])


def _span(found: re.Match[str], target: Target) -> str:
    if found["code"] is not None:
        return f"<code>{escape(found['code'])}</code>"
    for mark in ("strong", "em"):
        if found[mark] is not None:
            return f"<{mark}>{_inline(found[mark], target)}</{mark}>"
    words = _inline(found["words"], target)
    where = target(found["link"])
    return words if where is None else f'<a href="{escape(where)}">{words}</a>'
