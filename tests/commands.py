"""The command line, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from pdgnn.cli import app


def run(*words: str, code: int = 0, columns: int = 100) -> Result:
    """Run the command and check its exit code; an unexpected exception is raised."""
    runner = CliRunner(env={"COLUMNS": str(columns)})
    result = runner.invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def refused(*words: str, message: str, columns: int = 100) -> None:
    """The command must fail with one line on stderr that has `message`, and nothing on stdout."""
    result = run(*words, code=2, columns=columns)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
