"""`penstock serve` and `penstock dev`: run a broker in this process.

`serve` is for keeps: it says where it is in one log line and nothing else. `dev` is for trying:
defaults that suit a laptop, a free port where a usual one is taken, and four lines on where it is.
Both keep what they are given: `dev` uses `./penstock-data` by default, because a queue
that forgets on restart teaches the wrong thing; `--temporary` keeps nothing.
"""

import sys
import tempfile
import threading
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from penstock.cli.admin import Json, print_json
from penstock.cli.broker.broker import run_broker
from penstock.cli.flags import Given, takes_settings
from penstock.core.limits import MIB
from penstock.server.checks import check_config
from penstock.server.notation import Address, parse_address
from penstock.server.ports import is_free
from penstock.server.sources import LoadedConfig

if TYPE_CHECKING:
    from penstock.server.server import Places

DEV_DATA = "penstock-data"
DEV_DEFAULTS: Mapping[str, object] = {
    "storage.segment_size": 16 * MIB,
    "storage.ballast_size": 16 * MIB,
    "log.level": "warning",
}
"""A laptop's disk is not a server's, and its few lines should not scroll away."""


Port = Annotated[
    int | None,
    Parameter(
        name=["--port", "-p"],
        metavar="N",
        show_default=False,
        help="Serve clients at port N, HTTP and the dashboard at N+1, and other nodes at N+2; 0:"
        " free ports. --kafka, --http and --peer say it one by one.",
    ),
]
Open = Annotated[
    bool,
    Parameter(name="--open", negative="", show_default=False, help="Open the dashboard."),
]
PORT_MAX = 65_533
"""Two more are used."""


@takes_settings
def serve(
    given: Given, *, port: Port = None, open_browser: Open = False, json: Json = False
) -> int:
    """Run a broker.

    It needs a directory for its data and listens on this machine only, by default.
    SIGTERM and SIGINT stop it gracefully, a second one at once. The log goes to
    stderr; the line that begins with "ready" has the addresses. With --json they go
    to stdout as well, as one document, once it serves.

    Examples
    --------
    penstock serve --data /var/lib/penstock
    penstock serve --config /etc/penstock.toml
    # a second one on this machine
    penstock serve --data ./second --port 9500
    # one of three nodes
    penstock serve --data ./one --node-id 1 --cluster 1@a:9192,2@b:9192,3@c:9192
    """
    loaded = _load(given, port)
    if loaded.config.broker.data is None:
        raise CycloptsError(msg="A broker needs a directory to keep its data in: --data PATH.")
    check_config(loaded.config)

    def tell(places: "Places") -> None:
        if json:
            _print_places(places)
        if open_browser:
            _open_dashboard(places)

    return run_broker(loaded, on_ready=tell)


@takes_settings
def dev(
    given: Given,
    *,
    temporary: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Keep the data in a temporary directory and remove it at the end.",
        ),
    ] = False,
    port: Port = None,
    open_browser: Open = False,
    json: Json = False,
) -> int:
    """Run a broker on this machine, for trying and developing.

    It prints its addresses. The data is kept in ./penstock-data, and used again
    at the next start. Where a usual port is taken, a free one is used instead.

    Examples
    --------
    penstock dev
    penstock dev --open
    penstock dev --temporary --port 0
    """
    loaded = _load(given, port)
    if temporary:
        if loaded.config.broker.data is not None:
            raise CycloptsError(msg="--temporary and a data directory exclude each other.")
        with tempfile.TemporaryDirectory(
            prefix="penstock-dev-", ignore_cleanup_errors=True
        ) as directory:
            changed = loaded.changed({"data": directory}, "--temporary")
            return _run_dev(changed, temporary=True, open_browser=open_browser, json=json)
    return _run_dev(loaded, open_browser=open_browser, json=json)


def _load(given: Given, port: int | None) -> LoadedConfig:
    """The configuration; `--port` counts as the flags that it stands for, which win over it."""
    loaded = given.load()
    if port is None:
        return loaded
    if not 0 <= port <= PORT_MAX:
        raise CycloptsError(msg=f"--port = {port} must be from 0 to {PORT_MAX}.")
    flags = {
        name: str(address._replace(port=port and port + place))
        for place, (name, address) in enumerate(_addresses(loaded).items())
    }
    return replace(given, flags={**flags, **given.flags}).load()


def _print_places(places: "Places") -> None:
    print_json(places)
    sys.stdout.flush()


def _run_dev(
    loaded: LoadedConfig, *, temporary: bool = False, open_browser: bool = False, json: bool = False
) -> int:
    defaults = {**DEV_DEFAULTS}
    if loaded.config.broker.data is None:
        defaults["data"] = DEV_DATA
    chosen = {name: value for name, value in defaults.items() if loaded.is_default(name)}
    loaded = loaded.changed(chosen, "of penstock dev")
    loaded, remarks = choose_ports(loaded)
    check_config(loaded.config)
    if loaded.file is not None:
        remarks.append(f"Settings are read from {loaded.file}.")

    def show(places: "Places") -> None:
        if open_browser:
            _open_dashboard(places)
        if json:
            _print_places(places)
            return
        from penstock.cli.broker.banner import broker_lines, print_lines

        kept = f"{places.data} (removed at the end)" if temporary else places.data
        lines = broker_lines(kafka=places.kafka, http=places.http, data=kept, sqs=bool(places.sqs))
        print_lines([*remarks, *lines])

    return run_broker(loaded, on_ready=show)


def choose_ports(loaded: LoadedConfig) -> tuple[LoadedConfig, list[str]]:
    """Replace usual ports that are taken by free ones, and report it. Ports given explicitly
    stay."""
    remarks = []
    changes: dict[str, object] = {}
    for name, address in _addresses(loaded).items():
        if loaded.is_default(name) and not is_free(address):
            changes[name] = Address(address.host, 0)
            remarks.append(f"Port {address.port} is taken, so {name} got a free one.")
    return loaded.changed(changes, "of penstock dev"), remarks


def _addresses(loaded: LoadedConfig) -> dict[str, Address]:
    """Where a broker listens, by the name of the setting."""
    broker = loaded.config.broker
    return {"kafka": broker.kafka, "http": broker.http, "peer": broker.peer}


def _dashboard_url(places: "Places") -> str:
    """Return the address of the dashboard for a browser on this machine."""
    address = parse_address(places.http)
    if address.is_wildcard:
        address = Address("::1" if ":" in address.host else "127.0.0.1", address.port)
    return f"http://{address}"


def _open_dashboard(places: "Places") -> None:
    """Open the dashboard in a browser while the broker serves."""
    url = _dashboard_url(places)

    def work() -> None:
        if not webbrowser.open(url):
            print(f"penstock: no browser was found; the dashboard is at {url}", file=sys.stderr)

    # A thread, because a browser in a terminal lasts until it is left.
    threading.Thread(target=work, name="dashboard", daemon=True).start()
