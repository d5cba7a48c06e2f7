"""From a view to an answer: what every page has, and what none has."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from penstock.core.errors import NotLeader
from penstock.core.pipeline_report import PipelineReport, StageReport
from penstock.core.types import NodeId
from penstock.web.app import make_app
from penstock.web.broker import Phase
from penstock.web.dashboard.renderer import FOLDER, NAVIGATION
from penstock.web.tokens import page_token
from tests.unit.web.asgi import (
    Answer,
    FakeBroker,
    FakeCatalog,
    FakeEngine,
    FakeNode,
    FakeRecord,
    FakeTopic,
    call,
)

PAGES = ("/", "/cluster", "/alerts", "/pipelines", "/settings", "/search?q=a")
BAD = '"><script>alert(1)</script>&'


def page(broker: FakeBroker, path: str, *, fragment: bool = False, status: int = 200) -> Answer:
    headers = {"x-penstock-fragment": "1"} if fragment else {}
    answer = call(make_app(broker), "GET", path, headers=headers)
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer


class Parts(HTMLParser):
    """What a page is made of: its elements with their attributes, and the text between."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_safe(path: str) -> None:
    answer = page(FakeBroker(), path)
    policy = dict(
        one.strip().split(" ", 1)
        for one in answer.headers["content-security-policy"].split(";")
        if " " in one.strip()
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    for tag, attributes in Parts(answer.body.decode()).elements:
        assert "style" not in (tag, *attributes), "styles are in files"
        assert not [name for name in attributes if name.startswith("on")], "so is what happens"
        if tag == "script":
            assert (attributes["src"] or "").startswith("/assets/")


def test_no_template_trusts_anything() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text()
        if path.name == "runbook.html":  # Of our own file; `test_markdown.py` has the escapes.
            text = text.replace("{{ html | safe }}", "")
        assert not re.search(r"\|\s*safe\b|autoescape\s+false|Markup", text), path.name
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", text), path.name


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_also_json_and_says_so(path: str) -> None:
    broker = FakeBroker()
    join = "&" if "?" in path else "?"
    assert call(make_app(broker), "GET", f"{path}{join}format=json").json() is not None
    text = page(broker, path).body.decode()
    foot = text[text.index('<footer class="foot">') :]
    assert re.search(r'href="/(?:v1/\w+|\w*\?[^"]*format=json)', foot)
    if not path.startswith("/search"):
        assert "<code>penstock " in foot


@pytest.mark.parametrize("path", PAGES)
def test_a_page_that_is_open_gets_its_middle(path: str) -> None:
    text = page(FakeBroker(), path, fragment=True).body.decode().strip()
    assert text.startswith('<main id="page"')
    assert text.endswith("</main>")


def test_names_and_payloads_stay_text() -> None:
    broker = FakeBroker(reasons=[BAD])
    assert broker.node is not None
    broker.node.engine.topics.catalog.topics = {BAD: FakeTopic((1,))}
    stage = StageReport(stage=BAD, state=BAD, source=BAD, target=BAD, error=BAD)
    broker.node.pipeline_reports.found = [
        PipelineReport(
            pipeline=BAD, state=BAD, host=BAD, started_ms=0, reported_ms=0, stages=(stage,)
        )
    ]
    for path in ("/pipelines", "/search?q=script", "/", "/settings?q=%22%3E%3Cscript%3E"):
        parts = Parts(page(broker, path).body.decode())
        scripts = [attributes for tag, attributes in parts.elements if tag == "script"]
        assert all("src" in attributes for attributes in scripts), path
        if not path.startswith("/settings"):
            assert BAD in parts.text, path
    found = [
        attributes["href"]
        for tag, attributes in Parts(page(broker, "/search?q=script").body.decode()).elements
        if tag == "a" and "%3Cscript" in (attributes.get("href") or "")
    ]
    assert found == ["/topics/%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E%26"]


def test_the_token_is_on_the_page_and_buttons_are_not_where_nothing_may_change() -> None:
    broker = FakeBroker()
    text = page(broker, "/cluster").body.decode()
    assert f'name="penstock-token" content="{page_token(broker)}"' in text
    assert 'data-action="/v1/cluster/transfer"' in text
    held = page(FakeBroker(read_only=True), "/cluster").body.decode()
    assert "data-action" not in held
    assert "read only" in held


def test_a_page_says_where_it_is_too() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    record = FakeRecord("127.0.0.1:9093", "127.0.0.1:8082")
    broker.node.engine.topics.catalog.nodes = {NodeId(2): record}
    assert 'href="http://127.0.0.1:8082/"' in page(broker, "/").body.decode()


def test_a_broker_that_is_starting_says_what_it_waits_for() -> None:
    broker = FakeBroker(phase=Phase.STARTING, node=None, reasons=["waits for <node> 2"])
    assert "waits for &lt;node&gt; 2" in page(broker, "/").body.decode()
    refused = page(broker, "/cluster", status=503).body.decode()
    assert "the broker is starting" in refused


class Reopening(FakeEngine):
    """An engine whose catalog is not to be had now."""

    @property
    def catalog(self) -> FakeCatalog:
        raise NotLeader("the catalog of this node is not open: the node starts or stops")

    @catalog.setter
    def catalog(self, _value: FakeCatalog) -> None: ...


def test_a_node_in_trouble_still_has_pages() -> None:
    broker = FakeBroker(node=FakeNode(engine=Reopening()))
    for path in ("/", "/settings", "/search?q=a"):
        page(broker, path)


def test_what_is_not_there_is_a_page_for_people_and_a_document_for_programs() -> None:
    app = make_app(FakeBroker())
    seen = call(app, "GET", "/nowhere", headers={"accept": "text/html,*/*"})
    assert (seen.status, seen.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "there is nothing under this path" in seen.body.decode()
    told = call(app, "GET", "/nowhere", headers={"accept": "*/*"})
    assert (told.status, told.json()["error"]) == (404, "NotFound")


def test_where_one_is() -> None:
    text = page(FakeBroker(), "/settings").body.decode()
    assert re.findall(r'<a href="([^"]+)"[^>]*aria-current="page"', text) == ["/settings"]
    assert [place.path for place in NAVIGATION] == re.findall(
        r'<li><a href="([^"]+)" data-key', text
    )


def test_settings_are_filtered_by_the_address() -> None:
    assert "<code>shards</code>" in page(FakeBroker(), "/settings?q=SHA").body.decode()
    assert "No such setting" in page(FakeBroker(), "/settings?q=nothing").body.decode()
    assert "No such setting" in page(FakeBroker(), "/settings?only=changed").body.decode()


@pytest.mark.slow
def test_a_broker_starts_without_what_only_pages_need() -> None:
    program = "import sys, penstock.server.server; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
