"""The colours of devices, and of the words on them.

Tints are light and ink is dark, in every theme, so that labels can be read wherever a block stands.
What stands beside blocks is drawn in the colour that the page writes with (`currentColor`).
"""

from typing import Final

TINTS: Final = (
    # Okabe and Ito's palette, which colour-blind readers tell apart (https://jfly.uni-koeln.de/color/),
    # mixed with white so that dark labels can be read on every one.
    "#f0c566", "#9ad2f2", "#66c5ab", "#f6ef8e", "#66aad1", "#e69e66", "#e0afca", "#c2c2c2",
)  # fmt: skip

INK: Final = "#1a1a1a"

SHARED: Final = "#f3f3f3"
"""What lies behind the label of a block that several devices hold."""

WRONG: Final = "#8c1d00"
"""What a wrong block is outlined with, on a tint."""


def tint(device: int) -> str:
    """The colour of a device."""
    return TINTS[device % len(TINTS)]
