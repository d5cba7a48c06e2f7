"""A missing package is one sentence that names the extra."""

import pytest

from penstock.core.errors import NotInstalled
from penstock.core.extras import require
from penstock.core.version import __version__


def test_packages_that_are_there_are_enough() -> None:
    require("cli", "A test", ["json", "msgspec"])


def test_what_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(NotInstalled) as caught:
        require("server", "A test", ["json", "no_such_package", "nor_this_one"])
    assert str(caught.value) == (
        "A test needs penstock[server] (not installed: no_such_package, nor_this_one): make setup"
        " in a clone of the repository, or pip install"
        f" 'penstock-{__version__}-py3-none-any.whl[server]'"
    )
