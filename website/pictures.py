"""Draw the cheat sheet's pictures into `docs/pictures/`: `python -m website.pictures`.

They are what `show` and `communication` draw. GitHub shows them too, so they are files in the
repository, and a test compares these with what is drawn today.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import jax
from jax import P
from jax.sharding import AxisType

from shardlings import emulate_devices
from shardlings.layouts.showing import pictures_to_show
from shardlings.pictures import CollectivePicture, blocks_as_html, collective_as_html

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures"

SPECS: Final = {
    "spec-x-y": P("x", "y"),
    "spec-y-x": P("y", "x"),
    "spec-x-none": P("x", None),
    "spec-none-x": P(None, "x"),
    "spec-xy-none": P(("x", "y"), None),
    "spec-yx-none": P(("y", "x"), None),
    "spec-none": P(),
}
"""The specs that are drawn, by the names of their files."""

COLLECTIVES: Final = (
    "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute",
)  # fmt: skip

GAP: Final = 8
"""Pixels between what devices hold before and after."""

WHITE: Final = "<style>svg{background:#fff;color:#1a1a1a}</style>"
"""Makes a picture legible on a dark page, whose text colour a file cannot know."""


def draw() -> Iterator[tuple[str, str]]:
    """Yield the name and the SVG of each picture. All arrays have one scale."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    drawn = [*pictures_to_show(mesh), *pictures_to_show(mesh, *SPECS.values(), shape=(8, 4))]
    yield from zip(("mesh", *SPECS), _images(blocks_as_html(drawn)), strict=True)
    devices = tuple(range(3))
    ring = tuple((device, (device + 1) % len(devices)) for device in devices)
    for kind in COLLECTIVES:
        pairs = ring if kind == "collective-permute" else ()
        picture = CollectivePicture(title="", caption="", kind=kind, groups=(devices,), pairs=pairs)
        yield kind, _in_a_row(_images(collective_as_html(picture)))


def _images(page: str) -> list[str]:
    """Return the SVG images on a page, on white."""
    images = re.findall("<svg.*?</svg>", page, re.DOTALL)
    return [re.sub("^<svg[^>]*>", rf"\g<0>{WHITE}", image) for image in images]


def _in_a_row(images: list[str]) -> str:
    """Return one image with others side by side."""
    attribute = re.compile(r' (?:width|height)="(\d+)"')
    sizes = [tuple(map(int, attribute.findall(image)[:2])) for image in images]
    lefts = [sum(width + GAP for width, _ in sizes[:place]) for place in range(len(sizes))]
    moved = [
        image.replace("<svg ", f'<svg x="{left}" ', 1)
        for image, left in zip(images, lefts, strict=True)
    ]
    width, height = lefts[-1] + sizes[-1][0], max(height for _, height in sizes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(moved)}</svg>'
    )


if __name__ == "__main__":
    emulate_devices(8)
    for name, svg in draw():
        (FOLDER / f"{name}.svg").write_text(f"{svg}\n")
