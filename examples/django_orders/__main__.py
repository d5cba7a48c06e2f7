"""python -m examples.django_orders [url]: orders are stored by Django, and a worker packs them.

A view stores an order and says in the same transaction that a message is to be sent. Orders that
are rolled back send none. The worker is started as a site does it, with `penstock_work`, and writes
into the same database.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from penstock.testing import PenstockServer

try:
    import django
except ImportError:
    sys.exit("this example is a site of Django: pip install django")

ORDERS = 10


def main() -> int:
    """The exit code: 0 if exactly the orders that were stored are packed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url", nargs="?", help="of a broker; without it there is one in here")
    url = parser.parse_args().url
    with ExitStack() as stack:
        url = url or stack.enter_context(PenstockServer()).url
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["DJANGO_SETTINGS_MODULE"] = "examples.django_orders.site"
        os.environ["PENSTOCK_URL"] = url
        os.environ["ORDERS_DATABASE"] = str(directory / "orders.db")
        django.setup()
        from examples.django_orders.story import tell  # noqa: PLC0415 -- it needs the settings.

        packed = tell(ORDERS)
    print(f"{packed} orders were committed and packed")
    return int(packed != ORDERS)


if __name__ == "__main__":
    sys.exit(main())
