"""A pipeline to begin with, as `penstock pipeline new` writes it."""

TOML = """\
# A pipeline of Penstock on Spark: `penstock pipeline check {file}`, then
# `penstock pipeline run {file}`, or with --once to do what there is and end.

name = "{name}"
# broker = "penstock://127.0.0.1:9092"    # if nothing is said: PENSTOCK_URL, or your context
# dead_letters = "{name}.dead"            # where rows go that are refused, with the reason
# trigger = "500ms"                       # how often a stage looks for new rows
# max_per_trigger = 100000                # how many rows it takes at once at most
# partitions = 4                          # of topics that have to be made

# A stage reads a topic (or a queue, or the stage before), changes rows, and writes a topic. It does
# what it says in this order: schema, enrich, where, each, python, sql, select, expect.

[[stages]]
name = "extract"
from = "{name}.raw"                       # a topic; {{queue = "…"}} for a queue
# to = "{name}.extract"                   # what it writes, if nothing is said

[stages.schema]                           # what a message holds, as JSON; anything else is refused
id = "string not null"
customer = "string not null"
amount = {{ type = "double", required = true, min = 0, max = 1000000 }}
currency = {{ type = "string", allowed = ["EUR", "USD"] }}
at = "timestamp"

[[stages]]
name = "transform"                        # from: the stage before, if nothing is said
where = "amount > 0"
select = ["id", "customer", "round(amount, 2) AS amount", "coalesce(currency, 'EUR') AS currency"]
expect = {{ "the amount is zero after rounding" = "amount > 0" }}

# [[stages]]
# name = "enrich"
# enrich = {{ path = "customers.csv", keys = ["customer"], missing = "dead" }}

# [[stages]]
# name = "price"
# each = "prices:price"                   # your function, from a dict to a dict, for each row
# gives = {{ id = "string", total = "double" }}
# python = "orders:summary"               # your function, from a DataFrame to a DataFrame
# sql = "SELECT id, amount FROM input"    # or a query

[[stages]]
name = "load"
to = {{ lake = "lake/{name}" }}           # Parquet; or a topic, or {{queue = "…"}}
"""


def example(name: str, file: str) -> str:
    """Return the text of an example file."""
    return TOML.format(name=name, file=file)
