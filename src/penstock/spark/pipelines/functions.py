"""The user's own functions: found by `module:function`, and called so that a row cannot stop all.

A function from a DataFrame to a DataFrame runs in the driver and builds a plan. A function from a
row to a row runs in Spark's workers, once for each row; what it returns goes through JSON, so that
a value of another type than was promised makes a dead letter of its row and not an error of Spark.

A module that lies beside the pipeline's file is not installed on the workers; its functions are
sent to them by value.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.core.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import Column

REASON_CHARACTERS_MAX = 500
OUTCOME_TYPE = "struct<row: string, error: string>"

RowFunction = Callable[[dict[str, Any]], Mapping[str, Any] | None]


def load_function(place: str, directory: Path, path: str) -> Callable[..., Any]:
    """The function of this name; `InvalidRequest`, which begins with `path`, if there is none."""
    module_name, _, name = place.partition(":")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        found: object = importlib.import_module(module_name)
    except Exception as error:
        raise InvalidRequest(
            f"{path}: module {module_name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidRequest(f"{path}: there is no function {name} in module {module_name}")
    _send_by_value(sys.modules[module_name], directory)
    return found


def row_outcome(function: RowFunction, row: "Column") -> "Column":
    """Apply the function to a row, given as a struct, or null. The result has its JSON, or the
    error; neither if the row is to be dropped."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own habit

    def call(row: Any) -> tuple[str | None, str | None]:
        if row is None:
            return None, None
        try:
            given = function(row.asDict(recursive=True))
            if given is None:
                return None, None
            return msgspec.json.encode(given).decode(), None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this row's and no other's
            return None, f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]

    # Nothing may evaluate it twice, once to filter and once to select.
    return F.udf(call, OUTCOME_TYPE, useArrow=True).asNondeterministic()(row)


def _send_by_value(module: ModuleType, directory: Path) -> None:
    from pyspark import cloudpickle  # noqa: PLC0415 - it is not there on every machine

    place = getattr(module, "__file__", None)
    if place is not None and Path(place).resolve().is_relative_to(directory.resolve()):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
