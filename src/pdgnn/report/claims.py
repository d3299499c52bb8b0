"""The paper's claims and their verdicts as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from pdgnn.experiments.claims import Claim

__all__ = ["claims_markdown"]


def claims_markdown(found: Sequence[Claim]) -> str:
    """A table of verdicts, the numbers behind each, and the rules by which they were made.

    >>> from pdgnn.experiments.claims import claims
    >>> print(claims_markdown(claims({})).splitlines()[2])
    | 1. Rewiring helps baselines and proposed models. | not enough runs |
    """
    lines = ["| claim | verdict |", "| :--- | :--- |"]
    lines += [f"| {claim.number}. {claim.statement} | {claim.verdict} |" for claim in found]
    for claim in found:
        lines += ["", f"**{claim.number}. {claim.statement}** *{claim.verdict.capitalize()}.*", ""]
        lines += [f"- {sentence}" for sentence in claim.numbers]
    rules: dict[str, list[str]] = {}
    for claim in found:
        rules.setdefault(claim.rule, []).append(str(claim.number))
    lines += ["", "How a verdict is made:", ""]
    lines += [f"- Claim {_listed(numbers)}: {rule}" for rule, numbers in rules.items()]
    return "\n".join(lines)


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
