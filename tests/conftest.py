"""What every test can ask for.

`--rewrite` records scenario outputs anew instead of comparing them. Read the difference before you
commit it: it is the change of behaviour you are signing for.

`--shuffle SEED` runs the tests in a random order, the same for the same seed: files in any order,
and the tests of a file in any order, so that what the tests of a file share is still made once.

`--skips FILE` notes why tests were skipped; `tests/skips.py` makes one line of it.
"""

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import skips
from tests.order import shuffled

# Properties run the same examples every time: a test passes or fails, it does not flicker. The
# thorough profile (HYPOTHESIS_PROFILE=thorough) looks further, with fresh examples.
settings.register_profile("house", derandomize=True, deadline=None, max_examples=50, database=None)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="record the outputs of tests/scenarios anew",
    )
    parser.addoption(
        "--shuffle", type=int, default=None, metavar="SEED", help="run tests in a random order"
    )
    parser.addoption(
        "--skips", type=Path, default=None, metavar="FILE", help="note why tests were skipped"
    )


def pytest_configure() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and the processes of a test
    would inherit that: Ctrl-C could not be tested."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--shuffle")
    if seed is not None:
        items[:] = shuffled(items, seed, by=lambda item: item.path)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    path = config.getoption("--skips")
    if path is not None and not hasattr(config, "workerinput"):
        reports = terminalreporter.stats.get("skipped", [])
        skips.note(path, (report.longrepr[2] for report in reports))


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """True when recorded outputs are to be renewed."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A test that runs a command in this process sends logs to a stream that is closed after it;
    the next one that logs would complain about that."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    if root.handlers != handlers:
        root.handlers[:] = handlers
    root.setLevel(level)
