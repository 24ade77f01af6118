"""Draw bars to compare: names, lengths, and numbers in words."""

import html
from collections.abc import Sequence
from typing import Final

BLUE: Final = "#3d8fc4"
"""Told apart from a page in both themes; nothing is written on it."""

LONGEST: Final = 240


def bars_as_html(amounts: Sequence[tuple[str, float, str]]) -> str:
    """A bar for each named amount, at one scale, with its number in words beside it.

    Nothing is drawn of a single one: there is nothing to compare it with.

    Args:
        amounts: a name, an amount, and the amount in words, for each bar.
    """
    if len(amounts) < 2:
        return ""
    most = max(amount for _, amount, _ in amounts) or 1
    return "".join(
        f'<div style="margin:2px 0;display:flex;flex-wrap:wrap;align-items:center;gap:0 8px">'
        f'<div style="width:110px">{html.escape(name)}</div>'
        # a rectangle and no background, which browsers leave out in print
        f"{_bar(max(2, round(LONGEST * amount / most)), name)}"
        f"<div>{html.escape(words)}</div></div>"
        for name, amount, words in amounts
    )


def _bar(width: int, name: str) -> str:
    return (
        f'<svg role="img" aria-label="{html.escape(name, quote=True)}" '
        f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="10">'
        f'<rect width="{width}" height="10" fill="{BLUE}"/></svg>'
    )
