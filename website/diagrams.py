"""A flowchart of Mermaid's, whose script would come from elsewhere, in words.

GitHub draws it. On the site it is a list: what nothing stands below comes first, and each box says
which others its arrows lead to.
"""

import re
from graphlib import TopologicalSorter
from typing import Any, ClassVar, Final

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

ARROW: Final = re.compile(r"^\s*(\S+) --> (\S+)$", re.MULTILINE)


class Flowchart(Directive):
    """A fence in which every line is an arrow from one box to another."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """The list."""
        leads: dict[str, list[str]] = {}
        for box, other in ARROW.findall("\n".join(self.content)):
            leads.setdefault(box, []).append(other)
        if not leads:
            raise self.error("No line of this diagram is an arrow, so there is nothing to list.")
        items = nodes.bullet_list()
        for box in TopologicalSorter(leads).static_order():
            line = nodes.paragraph("", "", nodes.literal("", box))
            for i, other in enumerate(sorted(leads.get(box, []))):
                line += [nodes.Text(", " if i else " → "), nodes.literal("", other)]
            items += nodes.list_item("", line)
        return [items]


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer it to Sphinx."""
    app.add_directive("mermaid", Flowchart)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
