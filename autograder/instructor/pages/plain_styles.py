"""Styles that cannot lay what a stranger wrote over the rest of a page: plain values alone."""

import re
from typing import Any, Final

from bleach.css_sanitizer import CSSSanitizer

WORD: Final = r"[a-z]+(-[a-z]+)*"
COLOUR: Final = rf"#[0-9a-f]{{3,8}}|{WORD}|rgba?\([\d., %]{{5,40}}\)"
SMALL: Final = r"0|[0-3]?\d(\.\d+)?(px|pt)|[0-2](\.\d+)?r?em"
AROUND: Final = rf"({SMALL})( ({SMALL})){{0,3}}"

VALUES: Final = {
    name: re.compile(pattern, re.IGNORECASE)
    for pattern, names in {
        WORD: ("align-items", "border-collapse", "flex-wrap", "overflow-wrap", "text-align",
               "vertical-align", "white-space"),
        COLOUR: ("background-color", "color"),
        AROUND: ("gap", "margin", "padding"),
        rf"({SMALL}) {WORD} ({COLOUR})": ("border-left",),
        r"block|flex|inline|inline-block|none": ("display",),
        rf"{SMALL}|{WORD}|[1-9]\d%": ("font-size",),
        rf"{WORD}|[1-9]00": ("font-weight",),
        SMALL: ("height", "min-height"),
        r"0?\.\d+|0|1": ("opacity",),
        rf"{SMALL}|\d{{1,3}}px|\d{{1,2}}(\.\d+)?%|100%": ("max-width", "width"),
    }.items()
    for name in names
}  # fmt: skip
"""What may be styled, and what with: no functions, nothing negative, and nothing large around."""


LONG_STYLE: Final = 300
"""The most characters of a style: to take one apart takes a while, and a verdict's have 60."""

GROWING: Final = {"height": "min-height"}
"""What becomes another property: what is higher than its own block would lie over the next one."""


class PlainStyles(CSSSanitizer):
    """Keeps of a style what is plain."""

    def __init__(self) -> None:
        super().__init__(allowed_css_properties=VALUES.keys(), allowed_svg_properties=())

    def sanitize_css(self, style: str) -> str:
        """The declarations that are known, of values that are known."""
        if len(style) > LONG_STYLE:
            return ""
        declared = (each.partition(":") for each in super().sanitize_css(style).split(";"))
        plain = ((name.strip().lower(), value.strip()) for name, _, value in declared)
        return ";".join(
            f"{GROWING.get(name, name)}:{value}" for name, value in plain if _is_plain(name, value)
        )


def _is_plain(name: str, value: str) -> Any:
    return name in VALUES and VALUES[name].fullmatch(value)
