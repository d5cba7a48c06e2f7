"""The files that pages load."""

import re

import pytest

from penstock.web.app import make_app
from penstock.web.dashboard.assets import FOLDER, asset_address, assets
from tests.unit.web.asgi import FakeBroker, call


def test_a_file_may_be_kept_under_its_own_address() -> None:
    app = make_app(FakeBroker())
    address = asset_address("dashboard.css")
    answer = call(app, "GET", address)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    bare = call(app, "GET", address.partition("?")[0])
    assert bare.headers["cache-control"] == "no-cache"
    told = {"if-none-match": bare.headers["etag"]}
    assert call(app, "GET", address, headers=told).status == 304


@pytest.mark.parametrize(
    "path", ["/assets/none.css", "/assets/..%2fview.py", "/assets/licences", "/assets/"]
)
def test_nothing_else_is_served(path: str) -> None:
    assert call(make_app(FakeBroker()), "GET", path).status == 404


def test_what_was_taken_from_others_comes_with_its_licence() -> None:
    taken = {name.split("-")[0] for name in assets() if re.search(r"-\d", name)}
    assert taken == {path.stem for path in (FOLDER / "licences").iterdir()}


def test_nothing_is_loaded_from_elsewhere() -> None:
    for name in ("dashboard.css", "live.js", "charts.js", "actions.js", "search.js", "theme.js"):
        text = assets()[name].content.decode()
        assert not re.search(r"https?://|@import|\beval\(|innerHTML|new Function", text), name
