"""The default address of the broker, for `connect`, `App` and the commands.

    PENSTOCK_URL            the variable
    PENSTOCK_CONTEXT        a context by its name (`penstock context add`)
    the current context     the one that `penstock context use` has chosen
    penstock://127.0.0.1:9092

The first of them that is set counts. A context without a native address is an error: a broker on
this machine would be another one than the user chose.
"""

import os
from collections.abc import Mapping

from penstock.client.context_file import context_path, read_contexts
from penstock.core.errors import LocalError

DEFAULT_URL = "penstock://127.0.0.1:9092"
URL_VARIABLE = "PENSTOCK_URL"


def default_url(environment: Mapping[str, str] = os.environ) -> str:
    """The address in force; `LocalError` if the chosen context has none."""
    given = environment.get(URL_VARIABLE)
    if given:
        return given
    chosen = read_contexts(context_path(environment)).chosen(environment)
    if chosen is None:
        return DEFAULT_URL
    name, context = chosen
    if not context.url:
        raise LocalError(
            f"context {name} has no native address; add it with"
            f" `penstock context add {name} --url URL`"
        )
    return context.url
