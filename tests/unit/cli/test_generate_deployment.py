"""`penstock generate grafana`, `compose` and `kubernetes`, and the Dockerfile: what they write is
held against what the broker knows of itself."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.generate.compose import compose_text
from penstock.cli.generate.grafana import ROWS, WIDTH, board
from penstock.cli.generate.kubernetes import kubernetes_text
from penstock.cli.main import run
from penstock.engine.peers.cluster_key import parse_keys
from penstock.watch.metric_table import METRICS, Kind
from tests.cluster_key import KEY

Captured = pytest.CaptureFixture[str]
Document = dict[str, Any]

ROOT = Path(__file__).parents[3]
WORDS = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
FILTER = re.compile(r"\b(penstock_\w+|batch_size_avg)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"by \(([^)]*)\)")
PART = re.compile(r"_(bucket|count|sum)$")
SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds."""


def expressions() -> Iterator[str]:
    for _, panels in ROWS:
        for panel in panels:
            for expression, _ in panel.queries:
                yield expression


def known(name: str) -> str:
    """The metric that a series belongs to; raises if there is none."""
    if name in METRICS:
        assert METRICS[name].kind is not Kind.HISTOGRAM, f"{name} is a histogram: use its parts"
        return name
    base = PART.sub("", name)
    assert base in METRICS, f"there is no metric {name}"
    assert METRICS[base].kind is Kind.HISTOGRAM, f"{base} has no parts"
    return base


@pytest.mark.parametrize("expression", list(expressions()))
def test_a_panel_asks_for_what_is_there(expression: str) -> None:
    labels = set(SCRAPED)
    for name, filters in FILTER.findall(expression):
        metric = METRICS[known(name)]
        own = {*metric.labels, *SCRAPED} | ({"le"} if metric.kind is Kind.HISTOGRAM else set())
        for one in filters.split(",") if filters else ():
            assert re.split("!?=", one)[0] in own, f"{name} has no label {one}"
        labels |= own
        if metric.kind is Kind.COUNTER or metric.kind is Kind.HISTOGRAM:
            assert f"rate({name}" in expression or f"increase({name}" in expression
    for grouping in GROUPING.findall(expression):
        assert {one.strip() for one in grouping.split(",")} <= labels, expression
    assert expression.count("(") == expression.count(")")


def test_nothing_lies_on_top_of_anything() -> None:
    taken: set[tuple[int, int]] = set()
    panels = board()["panels"]
    assert isinstance(panels, list)
    assert len({one["id"] for one in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (place["x"] + across, place["y"] + down)
            for across in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_board_is_printed(capsys: Captured) -> None:
    assert run(["generate", "grafana"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(board()))


def check_flags(arguments: list[str], capsys: Captured) -> None:
    """The broker takes these flags."""
    assert arguments[0] == "serve"
    assert run(["config", "check", *arguments[1:]]) == 0, capsys.readouterr().err


def test_a_compose_file_starts_three_brokers(capsys: Captured) -> None:
    document: Document = yaml.safe_load(compose_text("penstock:test", KEY.hex()))
    brokers = [one for name, one in document["services"].items() if name.startswith("penstock-")]
    assert len(brokers) == 3
    for broker in brokers:
        check_flags(broker["command"], capsys)
        volume = broker["volumes"][0].split(":")[0]
        assert volume in document["volumes"]
    published = [port for one in document["services"].values() for port in one.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len(set(published)) == len(published)


def test_a_compose_file_brings_its_files(capsys: Captured) -> None:
    document: Document = yaml.safe_load(compose_text("penstock:test", KEY.hex()))
    files = {name: one["content"].replace("$$", "$") for name, one in document["configs"].items()}
    wanted = {
        one["source"]
        for service in document["services"].values()
        for one in service.get("configs", ())
    }
    assert wanted == files.keys()
    assert json.loads(files["board"])["uid"] == "penstock"
    assert parse_keys(files["cluster-key"].encode(), "f").keys == (KEY,)
    scraped = yaml.safe_load(files["prometheus"])["scrape_configs"][0]["static_configs"]
    assert scraped[0]["targets"] == [f"penstock-{one}:8080" for one in (1, 2, 3)]
    capsys.readouterr()
    assert run(["generate", "prometheus"]) == 0
    assert yaml.safe_load(files["rules"]) == yaml.safe_load(capsys.readouterr().out)
    # A single dollar sign would be taken for a variable.
    raw = yaml.safe_load(compose_text("x", KEY.hex()))["configs"]["board"]["content"]
    assert "$" not in raw.replace("$$", "")


def documents(nodes: int = 3) -> dict[str, Document]:
    text = kubernetes_text(nodes, name="penstock", storage="20Gi", image="penstock:test")
    return {f"{one['kind']} {one['metadata']['name']}": one for one in yaml.safe_load_all(text)}


def test_kubernetes_gets_a_cluster(capsys: Captured) -> None:
    found = documents()
    cluster = found["StatefulSet penstock"]["spec"]
    (container,) = cluster["template"]["spec"]["containers"]
    assert cluster["podManagementPolicy"] == "Parallel", "founders wait for each other"
    assert cluster["serviceName"] == "penstock-peers"
    peers = found["Service penstock-peers"]["spec"]
    assert peers["clusterIP"] == "None"
    assert peers["publishNotReadyAddresses"] is True
    assert found["PodDisruptionBudget penstock"]["spec"]["maxUnavailable"] == 1
    probes = {name: container[name]["httpGet"]["path"] for name in container if "Probe" in name}
    assert probes == {
        "startupProbe": "/startupz",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    labels = cluster["template"]["metadata"]["labels"]
    for one in found.values():
        chosen = one["spec"].get("podSelector", one["spec"].get("selector"))
        assert chosen.get("matchLabels", chosen) == labels
    claimed = {one["metadata"]["name"] for one in cluster["volumeClaimTemplates"]}
    assert {one["name"] for one in container["volumeMounts"]} == claimed | {
        "scratch",
        "cluster-key",
    }


def test_a_pod_starts_its_own_node(capsys: Captured) -> None:
    (container,) = documents()["StatefulSet penstock"]["spec"]["template"]["spec"]["containers"]
    (script,) = container["args"]
    for number in (0, 2):
        shell = script.replace("exec penstock", "echo")
        environment = f"HOSTNAME=penstock-{number} NAMESPACE=shop NODE_NAME=machine"
        arguments = shlex.split(_sh(f"{environment}; {shell}"))
        check_flags(arguments, capsys)
        assert f"--node-id={number + 1}" in arguments
        assert f"--advertise-kafka=penstock-{number}.penstock-peers.shop.svc:9092" in arguments


def _sh(script: str) -> str:
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    "flags",
    [
        ("--nodes", "0"),
        ("--name", "Upper"),
        ("--storage", "much"),
        ("--image", "a b"),
    ],
)
def test_what_kubernetes_would_not_take_is_refused(capsys: Captured, flags: tuple[str]) -> None:
    assert run(["generate", "kubernetes", *flags]) == 2
    assert flags[0] in capsys.readouterr().err


def test_the_dockerfile_starts_a_broker(capsys: Captured) -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"^CMD (\[.*\])", text, re.MULTILINE)
    flags = json.loads(command)
    assert run(["config", "check", *flags[1:]]) == 1, "what it opens is for the user to allow"
    assert "add --insecure" in capsys.readouterr().err
    check_flags([*flags, "--insecure"], capsys)
    assert re.search(r"^USER (?!root)", text, re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name


def test_the_dockerfile_installs_nothing_that_is_not_locked() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    assert "ARG PYTHON=" in text, "the base can be given by its digest"
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON}", "${PYTHON}"]
    for command in re.findall(r"pip (?:install|wheel) [^&\n]*", text):
        locked = "--require-hashes" in command
        assert locked or "--no-deps" in command, command
        assert " wheel " not in command or "--no-build-isolation" in command, command
        assert " install " not in command or locked or command.endswith(".whl"), command
