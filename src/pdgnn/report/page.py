"""A training as one HTML page that needs nothing else: the table, the picture, how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pdgnn import __version__
from pdgnn.report.dial import scores_svg
from pdgnn.report.training import METRIC_NAMES, cells, columns, differing, remarks
from pdgnn.training.summary import Summary, chosen

__all__ = ["training_page"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.4rem; }
code { background: #f4f4f4; padding: .1rem .3rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: .9rem; } .wide { overflow-x: auto; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e5e5e5;
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.chosen { background: #fff4e0; }
svg { max-width: 100%; height: auto; } footer { color: #666; font-size: .85rem; }
"""


def training_page(name: str, metric: str, rows: Sequence[Summary], command: str) -> str:
    """The page; whatever users typed is escaped."""
    best = chosen(rows)
    heads = "".join(f"<th>{escape(column)}</th>" for column in columns(rows))
    names = differing(row.spec for row in rows)
    body = "".join(_line(cells(row, names), row is best and len(rows) > 1) for row in rows)
    said = "".join(f"<p>{escape(text)}</p>" for text in remarks(rows))
    about = (
        f"Scores are {METRIC_NAMES[metric]} in percent, on test nodes at the best validation step."
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(name)} - pdgnn</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(name)}</h1>
<p>{escape(about[0].upper() + about[1:])}</p>
{scores_svg(rows, metric)}
{said}
<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>
<footer><p>pdgnn {escape(__version__)}; made by <code>{escape(command)}</code></p></footer>
</body>
</html>
"""


def _line(texts: Sequence[str], chosen_one: bool) -> str:
    marked = ' class="chosen"' if chosen_one else ""
    return f"<tr{marked}>{''.join(f'<td>{escape(text)}</td>' for text in texts)}</tr>"
