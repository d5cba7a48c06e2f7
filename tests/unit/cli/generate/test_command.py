"""`penstock generate …`."""

import subprocess
from pathlib import Path

import pytest

from penstock.cli.generate.command import unit_text
from penstock.cli.main import run

Captured = pytest.CaptureFixture[str]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_group(capsys: Captured, shell: str) -> None:
    assert run(["generate", "completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("queue", "redrive", "produce", "dead-letter-topic"):
        assert word in script


@pytest.mark.slow
def test_bash_completes(capsys: Captured, tmp_path: Path) -> None:
    assert run(["generate", "completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    asked = f"""
        source {script}
        COMP_WORDS=(penstock queue re); COMP_CWORD=2; COMP_LINE='penstock queue re'; COMP_POINT=17
        $(complete -p penstock | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        echo "${{COMPREPLY[@]}}"
    """
    told = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert {"receive", "redrive", "reset", "resume"} <= set(told.stdout.split())


def test_an_unknown_shell(capsys: Captured) -> None:
    assert run(["generate", "completion", "tcsh"]) == 2
    assert "tcsh" in capsys.readouterr().err


def test_a_systemd_unit(capsys: Captured) -> None:
    assert run(["generate", "systemd"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start.endswith("/penstock serve --data /var/lib/penstock")
    assert Path(start.removeprefix("ExecStart=").split()[0]).is_absolute()
    assert "StateDirectory=penstock" in lines
    assert not any(line.startswith("ReadWritePaths=") for line in lines)


def test_a_unit_for_data_elsewhere() -> None:
    lines = unit_text("/p", data="/srv/x", config="/etc/c.toml").splitlines()
    assert "ExecStart=/p serve --data /srv/x --config /etc/c.toml" in lines
    assert "ReadWritePaths=/srv/x" in lines
    assert not any(line.startswith("StateDirectory=") for line in lines)


@pytest.mark.parametrize("path", ["data", "/with space", '/q"', "/a%b"])
def test_a_path_that_does_not_fit_into_a_unit(capsys: Captured, path: str) -> None:
    assert run(["generate", "systemd", "--data", path]) == 2
    assert "must be an absolute path" in capsys.readouterr().err
