"""python -m examples.order_stream: three brokers, workers and a Spark pipeline on an order stream.

A node is killed with kill -9 on the way and comes back. In the end there are a lake of Parquet
files, a report on the dead letters with a chart, a redrive of those that can be mended, and a proof
that every order is accounted for exactly once; the exit code is 1 if it is not. `make demo` runs
it. Nothing but this machine is needed.
"""

import argparse
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from examples.order_stream.orders import (
    LETTERS,
    ORDERS,
    PARCEL_LETTERS,
    SHIPPED,
    SLOW_EVERY,
    complaints,
    expected,
    is_bad,
)
from examples.order_stream.shop import Shop
from penstock.spark import archive, audit, dead_letter_report, session
from penstock.spark.jobs.charts import draw_lines, new_figure, save
from penstock.spark.jobs.dead_letter_rows import find_stores, read_letters
from penstock.spark.jobs.redrives import redrive_by
from penstock.spark.lake.history import lake_rows
from penstock.spark.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_SECONDS = 600.0
FIXABLE = "kind like '%timeout%'"


def main() -> int:
    """Tell it as it happens."""
    parser = argparse.ArgumentParser(prog="python -m examples.order_stream", description=__doc__)
    parser.add_argument("--orders", type=int, default=3_000)
    parser.add_argument("--per-second", type=float, default=150.0)
    parser.add_argument("--out", type=Path, default=None, help="a directory that is not there yet")
    parser.add_argument("--keep", action="store_true", help="go on running until Ctrl-C")
    options = parser.parse_args()
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")  # noqa: DTZ005 - for whoever sits here
    out = (options.out or Path("penstock-demo") / stamp).absolute()
    if out.exists():
        parser.error(f"{out} is there already: name a directory that is not")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # What was started is ended.
    story = Story(out, options.orders, options.per_second)
    try:
        with Shop(out) as shop:
            found = story.tell(shop)
            if options.keep:
                say(f"everything goes on running at {shop.url}; Ctrl-C ends it")
                threading.Event().wait()
    except KeyboardInterrupt:
        say("stopped")
        return 130
    return 1 if found else 0


class Story:
    """The demo, step by step."""

    def __init__(self, out: Path, orders: int, per_second: float) -> None:
        self._out = out
        self._count = orders
        self._per_second = per_second
        self._slow = sum(n % SLOW_EVERY == 3 and not is_bad(n) for n in range(orders))

    def tell(self, shop: Shop) -> list[str]:
        """What is wrong in the end; nothing if all is well."""
        say(f"3 brokers run: {shop.url}")
        say(f"dashboard: {shop.cluster.http_url}/")
        with step("queues, workers and the pipeline on Spark"):
            shop.open()
        self._place(shop)
        must_ship, must_refuse = expected(self._count)
        with step("working off what is left"):
            dead = len(must_refuse) + self._slow
            seen = shop.wait(shipped=len(must_ship) - self._slow, dead=dead, seconds=WAIT_SECONDS)
        say(", ".join(f"{count:,} {name}" for name, count in seen.items()))
        shop.end("pipeline")
        with step("Spark for archive and reports"):
            spark = session("order stream", master="local[2]")
        lake = str(self._out / "lake")
        with step(f"archive: {ORDERS} into a lake of Parquet files"):
            archived = archive(spark, lake, ORDERS, url=shop.url)
        say(f"{archived.rows:,} orders are in {lake}")
        chart = self._out / "dead-letters.png"
        with step("dead-letter report"):
            report = dead_letter_report(shop.url, spark=spark, chart=chart, quiet=1)
        (self._out / "dead-letters.json").write_text(report.to_json())
        for advice in report.suggestions:
            say(f"  {advice.messages:4} x {advice.kind}: {advice.action}, {advice.why}")
        say(f"chart: {chart}")
        self._redrive(shop, spark)
        found = self._prove(shop, spark, lake)
        spark.stop()
        return found

    def _place(self, shop: Shop) -> None:
        """Orders come all the time; at a third of them a node dies, at two thirds it is back."""
        third = self._count // 3
        with step(f"placing {self._count:,} orders, some of them bad"):
            shop.place(0, third, per_second=self._per_second)
            node = shop.kill_leader()
            say(f"kill -9: node {node}, which led {ORDERS}; orders go on")
            shop.place(third, 2 * third, per_second=self._per_second)
            shop.bring_back(node)
            say(f"node {node} is back")
            shop.place(2 * third, self._count, per_second=self._per_second)

    def _redrive(self, shop: Shop, spark: "SparkSession") -> None:
        """The carrier answers again; what died of that is delivered anew, and nothing else."""
        shop.carrier_file.unlink()
        with step(f"the carrier answers again; redrive of what {FIXABLE}"):
            letters = read_letters(spark, shop.url, find_stores(shop.url))
            done = redrive_by(letters, shop.url, FIXABLE, dry_run=False)
        shop.mark("redrive")
        say(f"{done.moved} of {done.matched} messages were redriven")
        must_ship, must_refuse = expected(self._count)
        with step("shipping them"):
            shop.wait(shipped=len(must_ship), dead=len(must_refuse), seconds=WAIT_SECONDS)

    def _prove(self, shop: Shop, spark: "SparkSession", lake: str) -> list[str]:
        """Every order is in the lake once, and was either shipped once or refused once."""
        with step("proof"):
            audited = audit(spark, ORDERS, url=shop.url, lake=lake, complete=True)
            rows = lake_rows(spark, Lake.open(lake), ORDERS)
            stored = [row.key for row in rows.selectExpr("cast(key as string) key").collect()]
            found = [*audited.problems, *complaints(
                self._count,
                lake=stored,
                shipped=_keys(shop, SHIPPED),
                refused=[*_waiting(shop, LETTERS), *_waiting(shop, PARCEL_LETTERS)],
            )]  # fmt: skip
        picture = self._draw(shop)
        must_ship, must_refuse = expected(self._count)
        for problem in found:
            say(f"WRONG: {problem}")
        if not found:
            say(
                f"{self._count:,} orders = {len(must_ship):,} shipped + {len(must_refuse):,}"
                f" refused, each exactly once; {len(stored):,} in the lake, each exactly once"
            )
        say(f"pictures: {picture} {self._out / 'dead-letters.png'}")
        return found

    def _draw(self, shop: Shop) -> Path:
        figure, (axes,) = new_figure(f"{self._count:,} orders and what became of them", panels=1)
        draw_lines(axes, shop.samples, title="since the start", unit="orders", marks=shop.marks)
        return save(figure, self._out / "orders.png")


def _keys(shop: Shop, topic: str) -> list[str]:
    """Of every message in a log."""
    return [(one.key or b"").decode() for one in shop.client.read(topic, codec=bytes)]


def _waiting(shop: Shop, queue: str) -> list[str]:
    """Of the letters that lie in a queue now."""
    count = shop.client.queue(queue).stats().depth
    found = shop.client.queue(queue, codec=bytes).peek(
        count + 1_000, states=["ready", "leased", "delayed"]
    )
    return [(one.key or b"").decode() for one in found]


_BEGAN = time.monotonic()


def say(text: str) -> None:
    """A line, with the seconds since the start."""
    print(f"{time.monotonic() - _BEGAN:6.1f} s  {text}", flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """A line before, and one with its time after it."""
    say(f"{name} …")
    began = time.monotonic()
    yield
    say(f"{name}: {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
