"""Mermaid flowcharts as lists, because the site loads no scripts from elsewhere.

GitHub draws such a flowchart. On the site it is a list of its boxes, each with the boxes that its
arrows lead to; a box comes after those.
"""

import re
from graphlib import TopologicalSorter
from typing import Any, ClassVar, Final

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

ARROW: Final = re.compile(r"^\s*(\S+) --> (\S+)$", re.MULTILINE)


class Flowchart(Directive):
    """A `mermaid` fence whose lines are arrows from one box to another."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        targets: dict[str, list[str]] = {}
        for box, target in ARROW.findall("\n".join(self.content)):
            targets.setdefault(box, []).append(target)
        if not targets:
            raise self.error("No line of this diagram is an arrow, so there is nothing to list.")
        items = nodes.bullet_list()
        for box in TopologicalSorter(targets).static_order():
            line = nodes.paragraph("", "", nodes.literal("", box))
            for i, target in enumerate(sorted(targets.get(box, []))):
                line += [nodes.Text(", " if i else " → "), nodes.literal("", target)]
            items += nodes.list_item("", line)
        return [items]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("mermaid", Flowchart)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
