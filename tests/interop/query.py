"""The Query protocol with nothing but the standard library: a form or a URL goes, XML comes."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from tests.interop.served import Served

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20261119/us-east-1/sqs/aws4_request,"
    " SignedHeaders=host, Signature=00"
}
FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}


class Document(NamedTuple):
    """An answer's XML."""

    status: int
    root: ET.Element

    def text(self, name: str) -> str:
        """What the first element of this name says."""
        found = self.root.find(f".//{NAMESPACE}{name}")
        assert found is not None, f"no {name} in {ET.tostring(self.root, 'unicode')}"
        return found.text or ""

    def texts(self, name: str) -> list[str]:
        """What all elements of this name say."""
        return [found.text or "" for found in self.root.iter(NAMESPACE + name)]

    def parts(self, name: str) -> list["Document"]:
        """All elements of this name."""
        return [Document(self.status, found) for found in self.root.iter(NAMESPACE + name)]

    def pairs(self, name: str, key: str = "Name") -> dict[str, str]:
        """Names and values of all elements of this name."""
        return {part.text(key): part.text("Value") for part in self.parts(name)}

    @property
    def kind(self) -> str:
        """The name of the outermost element."""
        return self.root.tag.removeprefix(NAMESPACE)


def read(status: int, body: bytes) -> Document:
    """An answer, with a request's id in it."""
    document = Document(status, ET.fromstring(body))
    assert document.text("RequestId")
    return document


def post(served: Served, action: str, at: str = "/", /, **parameters: object) -> Document:
    """An action as a form. In names, `__` stands for a dot."""
    form = urlencode(_named(action, parameters))
    answer = served.ask("POST", at, form.encode(), FORM)
    return read(answer.status, answer.body)


def get(served: Served, action: str, at: str = "/", /, **parameters: object) -> Document:
    """The same as a URL, signed, without which no GET changes anything."""
    query = urlencode(_named(action, parameters), quote_via=quote)
    answer = served.ask("GET", f"{at}?{query}", headers=SIGNED)
    return read(answer.status, answer.body)


def _named(action: str, parameters: Mapping[str, object]) -> dict[str, str]:
    named = {name.replace("__", "."): str(value) for name, value in parameters.items()}
    return {"Action": action, "Version": "2012-11-05", **named}
