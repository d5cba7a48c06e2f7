"""`penstock generate compose`: three brokers, Prometheus and Grafana in one file, for one machine.

Everything is in that file: the rules of the alerts, what is scraped, and the board. It is for
trying and for developing. Three nodes on one machine survive the loss of a process and not that of
the machine, and there is no password.
"""

from typing import Annotated

from cyclopts import Parameter

from penstock.cli.admin import Json, print_text
from penstock.cli.generate.grafana import board_text
from penstock.core.version import __version__
from penstock.engine.peers.cluster_key import draw_key
from penstock.watch.prometheus import rules_text, scrape_text
from penstock.watch.settings import AlertSettings

NODES = (1, 2, 3)
KAFKA_PORT = 9092
HTTP_PORT = 8080
PEER_PORT = 9192
STOP_SECONDS = 60

HEAD = """\
# Three Penstock brokers, Prometheus and Grafana, written by `penstock generate compose` {version}.
# For trying and developing: anybody who reaches these ports may read and change everything.
# It holds the key by which the brokers know each other: keep it to yourself.
#   docker compose up --build     in a clone of Penstock, where the Dockerfile is
#   dashboard  http://127.0.0.1:8081     Grafana  http://127.0.0.1:3000     Kafka  127.0.0.1:9092
# It needs Compose 2.23 or later, for files that are written here.
name: penstock

services:
"""

BROKER = """\
  penstock-{node}:
    image: {image}
    build: .
    hostname: penstock-{node}
    command:
      - serve
      - --data=/var/lib/penstock
      - --node-id={node}
      - --cluster={cluster}
      - --cluster-key-file=/run/penstock/cluster.key
      - --kafka=0.0.0.0:{kafka}
      - --http=0.0.0.0:{http_port}
      - --peer=0.0.0.0:{peer_port}
      - --advertise-kafka=127.0.0.1:{kafka}
      - --advertise-http=penstock-{node}:{http_port}
      - --log.format=json
      # Beyond this machine's own address, in a network of this file's own.
      - --insecure
    ports:
      - "127.0.0.1:{kafka}:{kafka}"
      - "127.0.0.1:{web}:{http_port}"
    volumes:
      - data-{node}:/var/lib/penstock
    configs:
      - {{source: cluster-key, target: /run/penstock/cluster.key, uid: "10001", mode: 0400}}
    # It hands over what it leads before it stops.
    stop_grace_period: {stop}s
    restart: unless-stopped
    ulimits:
      nofile: 65536
"""

REST = """\
  prometheus:
    image: prom/prometheus
    depends_on: [penstock-1]
    ports: ["127.0.0.1:9090:9090"]
    configs:
      - {source: prometheus, target: /etc/prometheus/prometheus.yml}
      - {source: rules, target: /etc/prometheus/penstock-rules.yml}
    volumes: ["metrics:/prometheus"]
    restart: unless-stopped
  grafana:
    image: grafana/grafana
    depends_on: [prometheus]
    ports: ["127.0.0.1:3000:3000"]
    environment:
      GF_AUTH_ANONYMOUS_ENABLED: "true"
      GF_AUTH_ANONYMOUS_ORG_ROLE: Admin
      GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH: /var/lib/grafana/dashboards/penstock.json
    configs:
      - {source: sources, target: /etc/grafana/provisioning/datasources/penstock.yml}
      - {source: boards, target: /etc/grafana/provisioning/dashboards/penstock.yml}
      - {source: board, target: /var/lib/grafana/dashboards/penstock.json}
    restart: unless-stopped

volumes:
  data-1:
  data-2:
  data-3:
  metrics:

configs:
"""

SOURCES = """\
apiVersion: 1
datasources:
  - name: Prometheus
    type: prometheus
    url: http://prometheus:9090
    isDefault: true
"""

BOARDS = """\
apiVersion: 1
providers:
  - name: penstock
    type: file
    options: {path: /var/lib/grafana/dashboards}
"""


def compose(
    *,
    image: Annotated[
        str, Parameter(metavar="NAME", help="The image of the broker; built if it does not exist.")
    ] = f"penstock:{__version__}",
    json: Json = False,
) -> None:
    """Print a Compose file: three brokers, Prometheus and Grafana, on this machine.

    Examples
    --------
    penstock generate compose > compose.yaml
    penstock generate compose --image example/penstock:1.0 | docker compose -f - up
    """
    print_text(compose_text(image, draw_key().hex()), json=json)


def compose_text(image: str, key: str) -> str:
    """The file, with this cluster key."""
    cluster = ",".join(f"{node}@penstock-{node}:{PEER_PORT}" for node in NODES)
    brokers = [
        BROKER.format(
            node=node,
            image=image,
            cluster=cluster,
            kafka=KAFKA_PORT + node - 1,
            http_port=HTTP_PORT,
            peer_port=PEER_PORT,
            web=HTTP_PORT + node,
            stop=STOP_SECONDS,
        )
        for node in NODES
    ]
    targets = [f"penstock-{node}:{HTTP_PORT}" for node in NODES]
    files = {
        "cluster-key": f"{key}\n",
        "prometheus": scrape_text(targets),
        "rules": rules_text(AlertSettings()),
        "sources": SOURCES,
        "boards": BOARDS,
        "board": board_text(),
    }
    configs = "".join(
        f"  {name}:\n    content: |\n{_indented(text)}" for name, text in files.items()
    )
    return HEAD.format(version=__version__) + "".join(brokers) + REST + configs


def _indented(text: str) -> str:
    """For a block of text in YAML. Compose puts variables in for a single dollar sign."""
    lines = text.replace("$", "$$").splitlines()
    return "".join(f"      {line}".rstrip() + "\n" for line in lines)
