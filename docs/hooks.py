"""What the site shows of files outside of docs/, for mkdocs.

Pages link to ``../examples/own_model.py`` and ``../results/scale.png``, as they lie in the
repository. In the site a program is a page with its text, and any other file is copied.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LINK = re.compile(r"\]\(\.\./((?:examples|results)/[\w./-]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add whatever the pages link to outside of docs/."""
    root = Path(config.docs_dir).parent
    linked = {name for file in files.documentation_pages() for name in _linked(file)}
    for name in sorted(linked):
        path = root / name
        if path.suffix == ".py":
            text = f"# {name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
            files.append(File.generated(config, _in_site(name), content=text))
        elif path.is_file():
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links lead there."""
    return LINK.sub(lambda match: f"]({_in_site(match[1])})", markdown)


def _linked(file: File) -> list[str]:
    return LINK.findall(file.content_string)


def _in_site(name: str) -> str:
    return f"{name.removesuffix('.py')}.md" if name.endswith(".py") else name
