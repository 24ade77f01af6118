"""The playground: its scripts, and the numbers that they share with the package.

The scripts are plain files without a build step, and a page that is opened from disk runs them too.
Machines and colours come from the package, so they are written down once.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Final

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from shardlings.pictures.svg import TINTS
from shardlings.programs import MACHINES

FOLDER: Final = Path(__file__).parent / "_static" / "playground"

SCRIPTS: Final = (
    *("words", "layout", "reshard", "matmul", "transformer", "state"),
    *("drawing", "step_drawing", "roofline", "controls"),
    *(
        "layout_part",
        "reshard_part",
        "matmul_part",
        "transformer_code",
        "transformer_part",
        "page",
        "hero",
    ),
)
"""The scripts in order: each uses only those before it."""

MEMORY_BYTES: Final = {
    "TPU v5e": 16e9,
    "TPU v5p": 95e9,
    "H100 NVLink": 80e9,
    "H100 100G Ethernet": 80e9,
}
"""The memory of one chip, from the same pages as its speeds."""

LINKED_CHIPS: Final = {"TPU v5e": 256, "TPU v5p": 8960, "H100 NVLink": 8}
"""The number of chips that such links join: a pod of TPUs, or the GPUs of one server."""


def shared_numbers() -> dict[str, Any]:
    """Return what the scripts need from the package: machines, and the colours of devices."""
    machines = [
        asdict(m) | {"capacity": MEMORY_BYTES[m.name], "linked": LINKED_CHIPS.get(m.name)}
        for m in MACHINES.values()
    ]
    return {"machines": machines, "tints": TINTS}


def render_playground(static: str, start: str = "page") -> str:
    """Return the HTML that shows the playground.

    Args:
        static: the URL of the folder of its files.
        start: the script that fills the page.
    """
    numbers = json.dumps(shared_numbers(), ensure_ascii=False)
    scripts = "".join(f'<script src="{static}/{name}.js"></script>' for name in SCRIPTS)
    return (
        f'<link rel="stylesheet" href="{static}/playground.css">'
        f'<div class="playground" id="playground-app"><p>The playground needs JavaScript.</p></div>'
        f"<script>const course = {numbers};</script>{scripts}"
        f'<script>{start}.start(document.getElementById("playground-app"));</script>'
    )


class Playground(Directive):
    """The `playground` directive; its argument is the script that fills the page."""

    optional_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """Return the playground's HTML."""
        return [
            nodes.raw("", render_playground("_static/playground", *self.arguments), format="html")
        ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("playground", Playground)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
