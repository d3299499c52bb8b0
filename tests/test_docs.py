"""The pages of docs/: their programs run, their commands exist, and the site builds."""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from pdgnn import PDClassifier
from pdgnn.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
RUN = ("index", "quickstart", "own-data", "scopes", "results", "diffusion-features")
BLOCK = re.compile(r"(<!-- not run: .+ -->\n+)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a language, but for those under a comment ``<!-- not run: why -->``."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for skipped, kind, text in found if kind == language and not skipped]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the pages name, and classifiers that take little time."""
    staff = ROOT / "examples" / "staff"
    for name in ("nodes.csv", "edges.csv"):
        shutil.copy(staff / name, tmp_path)
    shutil.copy(staff / "edges.csv", tmp_path / "new-edges.csv")
    with (staff / "nodes.csv").open() as rows, (tmp_path / "new-nodes.csv").open("w") as out:
        csv.writer(out).writerows(row[:-1] for row in csv.reader(rows))  # without the role
    fit = PDClassifier.fit

    def quick_fit(self, *args, **kwargs):
        return fit(self.set_params(model="pd-logistic", minutes=0.03), *args, **kwargs)

    monkeypatch.setattr(PDClassifier, "fit", quick_fit)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", RUN)
def test_programs_run_one_after_another(name):
    names: dict[str, object] = {"__name__": "__main__"}
    programs = blocks(ROOT / "docs" / f"{name}.md", "python")
    assert programs
    for program in programs:
        exec(compile(program, f"{name}.md", "exec"), names)


def test_what_the_pages_say_is_printed(folder, capsys):
    """Blocks without a language after a program are what it prints, on the page of scopes."""
    text = (ROOT / "docs" / "scopes.md").read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n([^`]*)```\n\n```\n([^`]*)```", text)
    assert len(pairs) == 2
    names: dict[str, object] = {}
    for program, printed in pairs:
        exec(program, names)
        assert capsys.readouterr().out == printed


def test_the_error_on_the_page_is_the_one_that_is_raised(folder):
    text = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="no column 'rol'") as error:
        PDClassifier().fit(nodes="nodes.csv", edges="edges.csv", label="rol")
    assert f"```\n{error.value}\n```" in text


def commands(page: Path) -> list[list[str]]:
    """The lines of its shell blocks that call pdgnn, as words."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("pdgnn ")]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_commands_have_options_that_exist(page):
    group = typer.main.get_command(app)
    for words in commands(page):
        command = group.commands[words[0]]
        with suppress(typer.Exit):  # --list prints, and that is all
            command.make_context(words[0], words[1:])  # an unknown option is an error


def test_commands_are_found():
    assert sum(len(commands(page)) for page in PAGES) >= 8
    assert ["predict", "model", "-o", "predictions.csv"] in commands(ROOT / "docs" / "index.md")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_page_is_in_the_site(site):
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / name).is_file(), name
    assert not list(site.glob("*.py"))


def test_the_site_asks_no_other_server(site):
    """Links may lead elsewhere; scripts, styles and pictures are its own."""
    loads = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=["']?(https?:)?//""")
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page
    assert "@import" not in (ROOT / "docs" / "assets" / "site.css").read_text()


def test_docstrings_are_rendered(site):
    """No role and no unfenced example is left over, and a link leads to another name."""
    for page in (site / "api").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r":(func|class|meth|mod|data|attr|exc|obj):", text), page.name
        assert not re.search(r"<p>(&gt;){3} ", text), page.name
        assert "autoref " not in text
    features = (site / "api" / "diffusion.html").read_text(encoding="utf-8")
    assert re.search(r'href="#pdgnn\.diffusion\.label_shares"><code>label_shares', features)


def test_programs_and_pictures_outside_of_docs_are_there(site):
    assert "PDClassifier" in (site / "examples" / "own_graph.html").read_text(encoding="utf-8")
    assert (site / "results" / "scale.png").is_file()
