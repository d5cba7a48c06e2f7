"""A pipeline in Python: the same declaration as a file's, with functions in place of their names.

    from penstock.spark import Pipeline

    orders = Pipeline("orders", dead_letters="orders.dead")

    @orders.stage("extract", source="orders.raw", schema={"id": "string not null"})
    def extract(frame):                    # a DataFrame of the rows that are in order
        return frame.where("id <> ''")

    orders.stage("load", to={"lake": "lake/orders"})      # nothing to compute: no function

    @orders.each("price", source="extract", gives={"id": "string", "total": "double"})
    def price(row):                        # a dict; what it raises makes a dead letter of the row
        return {"id": row["id"], "total": row["net"] * 1.19}

`penstock pipeline run orders.py` runs it, and so does `orders.run(once=True)`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.core.errors import InvalidRequest
from penstock.spark.pipelines.pipeline_file import parse

if TYPE_CHECKING:
    from penstock.spark.pipelines.declaration import Declaration

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """Stages, in the order they are declared."""

    def __init__(self, name: str, **options: object) -> None:
        """`options` are the keys of a file: broker, dead_letters, trigger, partitions, …"""
        self.name = name
        self._options = options
        self._stages: list[dict[str, object]] = []

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}: {', '.join(str(one['name']) for one in self._stages)}>"

    def stage(self, name: str, **options: object) -> Callable[[F], F]:
        """Add a stage; as a decorator, with a function from a DataFrame to a DataFrame. `options`
        are the keys of a file; `from` is called `source`, because Python knows that word."""
        return self._add(name, "python", options)

    def each(self, name: str, **options: object) -> Callable[[F], F]:
        """Add a stage with a function from a row to a row, both dicts."""
        return self._add(name, "each", options)

    @property
    def declaration(self) -> "Declaration":
        """The pipeline in full, checked; `InvalidRequest` says what is wrong with it."""
        return parse({"name": self.name, **self._options, "stages": self._stages})

    def run(self, *, master: str = "local[*]", once: bool = False) -> None:
        """Run it here: until it is interrupted, or, with `once`, until all there is was done."""
        from penstock.spark.pipelines.runner import run_pipeline  # noqa: PLC0415 - starts Spark

        run_pipeline(self.declaration, master=master, once=once)

    def _add(self, name: str, key: str, options: dict[str, object]) -> Callable[[F], F]:
        written = {"from" if said == "source" else said: one for said, one in options.items()}
        stage: dict[str, object] = {"name": name, **_listed(written)}
        self._stages.append(stage)

        def take(function: F) -> F:
            if "." in function.__qualname__:
                raise InvalidRequest(
                    f"{function.__qualname__} must be a function of a module, where Spark's workers"
                    " can find it"
                )
            stage[key] = f"{function.__module__}:{function.__qualname__}"
            return function

        return take


def _listed(written: dict[str, object]) -> dict[str, object]:
    """Tuples are lists, as in a file."""
    return {name: list(one) if isinstance(one, tuple) else one for name, one in written.items()}
