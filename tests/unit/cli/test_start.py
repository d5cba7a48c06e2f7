"""What a broker loads before it serves: every module more is a start that takes longer."""

import subprocess
import sys
from pathlib import Path

LATER = (
    # The command line, and what draws.
    "cyclopts",
    "rich",
    "attr",
    "penstock.cli.program",
    # HTTP, SQS and what they show.
    "starlette",
    "uvicorn",
    "prometheus_client",
    "jinja2",
    "penstock.server.http_front",
    "penstock.web.app",
    "penstock.sqs.endpoint",
    "penstock.watch.watch",
    # What most brokers never need.
    "importlib.metadata",
    "importlib.resources",
    "tomllib",
    "http.client",
    "penstock.storage.repair",
    "penstock.client.client",
)
PROGRAM = """
import os, signal, sys
from penstock.cli import main
from penstock.cli.broker import broker
from penstock.cli.broker.plain_serve import read_plainly

def tell(places):
    print(*sorted(set(sys.argv[2:]) & sys.modules.keys()), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

run_broker = broker.run_broker
broker.run_broker = lambda loaded: run_broker(loaded, on_ready=tell)
anywhere = "127.0.0.1:0"
flags = [f"--data={sys.argv[1]}", *(f"--{port}={anywhere}" for port in ("kafka", "http", "peer"))]
sys.exit(read_plainly(["serve", *flags, "--storage.segment-size=1MiB"])())
"""


def test_what_is_not_needed_is_not_loaded_before_a_broker_is_ready(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "data"), *LATER],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
    assert "ready kafka=" in done.stderr


def test_the_names_are_those_of_modules() -> None:
    """A name that is misspelled would never be found loaded."""
    program = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", program, *LATER], check=True, timeout=60)
