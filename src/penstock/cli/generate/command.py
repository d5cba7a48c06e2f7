"""`penstock generate …`: files for other programs, made from what this version knows of itself.

They go to stdout, so that the user says where they belong.
"""

import os
import sys
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from penstock.cli.admin import Json, print_text
from penstock.core.version import __version__

app = App(
    name="generate",
    help="Generate files for other programs: shells, Prometheus, Grafana, Kubernetes.",
)
app.command(
    "penstock.cli.generate.completion:completion",
    name="completion",
    help="Print a completion script for a shell: commands, flags and the names of queues.",
)
app.command(
    "penstock.cli.generate.completion:names",
    name="names",
    help="Print the names of all queues and topics, for completion.",
)
app.command(
    "penstock.cli.generate.prometheus:prometheus",
    name="prometheus",
    help="Print the alerts as rules for Prometheus, or a configuration that scrapes nodes.",
)
app.command(
    "penstock.cli.generate.grafana:grafana",
    name="grafana",
    help="Print a Grafana dashboard: queues, lag, requests, Raft, disks.",
)
app.command(
    "penstock.cli.generate.compose:compose",
    name="compose",
    help="Print a Compose file: three brokers, Prometheus and Grafana, on this machine.",
)
app.command(
    "penstock.cli.generate.kubernetes:kubernetes",
    name="kubernetes",
    help="Print the manifests of a cluster for Kubernetes.",
)

UNIT = """\
# A systemd unit for a Penstock broker, written by `penstock generate systemd` {version}.
# Keep it as /etc/systemd/system/penstock.service, then:
#   systemctl daemon-reload && systemctl enable --now penstock

[Unit]
Description=Penstock message broker
Wants=network-online.target
After=network-online.target
# A disk that failed once will fail again: a broker that ends ten times in a row stays down.
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={program} serve --data {data}{config}
DynamicUser=yes
{state}LimitNOFILE=65536
# SIGTERM stops it in good order: what was acknowledged is on disk either way.
KillSignal=SIGTERM
TimeoutStopSec=60
Restart=on-failure
RestartSec=1
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
{writes}
[Install]
WantedBy=multi-user.target
"""
STATE_DIRECTORY = "/var/lib/"


@app.command
def systemd(
    *,
    data: Annotated[
        str, Parameter(metavar="PATH", help="The data directory of the broker.")
    ] = "/var/lib/penstock",
    config: Annotated[
        str | None, Parameter(metavar="FILE", help="The file of the broker's settings.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a systemd unit that runs a broker on this machine, with this installation.

    It runs as a separate user that can write only to the data directory.

    Examples
    --------
    penstock generate systemd
    penstock generate systemd --data /srv/penstock --config /etc/penstock.toml
    """
    for flag, path in (("--data", data), ("--config", config)):
        if path is not None and (not os.path.isabs(path) or not _is_plain(path)):
            raise CycloptsError(
                msg=f'{flag} = "{path}" must be an absolute path without spaces, quotes or "%".'
            )
    print_text(unit_text(_program(), data=data, config=config), json=json)


def unit_text(program: str, *, data: str, config: str | None) -> str:
    """The unit for a program at this path."""
    # Below /var/lib, systemd makes the directory and hands it to the unit's own user.
    name = data.removeprefix(STATE_DIRECTORY).strip("/")
    managed = data.startswith(STATE_DIRECTORY) and bool(name)
    return UNIT.format(
        version=__version__,
        program=program,
        data=data,
        config=f" --config {config}" if config else "",
        state=f"StateDirectory={name}\n" if managed else "",
        writes="" if managed else f"ReadWritePaths={data}\n",
    )


def _program() -> str:
    """The path of the program that belongs to this installation."""
    return os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "penstock")


def _is_plain(path: str) -> bool:
    return path.isprintable() and not set(path) & set(" %\"'\\$")
