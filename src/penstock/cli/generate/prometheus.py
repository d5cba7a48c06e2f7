"""`penstock generate prometheus`: a broker's alerts as rules for Prometheus, and how to scrape it.

Only what is asked for: the rules by default, with the numbers that a broker with the same settings
has; with --scrape a configuration that reads them and the metrics of some nodes.
"""

import os
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.admin import Json, print_text
from penstock.server.server import alert_settings
from penstock.server.sources import CONFIG_VARIABLE, load_config
from penstock.watch.prometheus import rules_text, scrape_text

_ALERTS = "PENSTOCK_ALERTS_"


def prometheus(
    *,
    scrape: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="HOST:PORT",
            negative="",
            show_default=False,
            help="Print a configuration that scrapes the HTTP port of this node; may be repeated.",
        ),
    ] = (),
    config: Annotated[
        str | None,
        Parameter(
            metavar="FILE",
            help="The file of the broker's settings, for the thresholds in [alerts].",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the alerts as rules for Prometheus, or a configuration that scrapes nodes.

    The numbers are those of the broker's own alerts: the defaults, or what the file given with
    --config, ./penstock.toml or variables such as PENSTOCK_ALERTS_DEPTH say.

    Examples
    --------
    penstock generate prometheus > penstock-rules.yml
    penstock generate prometheus --scrape a.example:8080 --scrape b.example:8080 > prometheus.yml
    PENSTOCK_ALERTS_DEPTH=1000,5000,off penstock generate prometheus
    """
    if scrape:
        print_text(scrape_text(scrape), json=json)
        return
    # Variables of the command line itself, such as PENSTOCK_URL, mean nothing to a broker.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_ALERTS) or name == CONFIG_VARIABLE
    }
    loaded = load_config(flags={}, environment=environment, file=config)
    print_text(rules_text(alert_settings(loaded.config)), json=json)
