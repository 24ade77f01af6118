"""Links to notebooks lead to their pages.

In tables, a notebook's name is one; and what a notebook's own outputs link to is on the site, too.
"""

import re
from typing import Any, Final

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

BESIDE: Final = re.compile(r'(href="\.\./(\w+)/\2)\.ipynb(?=")')
"""A link from one notebook to another, as `progress` makes it."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx do it to every page that it reads."""
    app.connect("doctree-read", _link_notebooks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _link_notebooks(app: Sphinx, page: nodes.document) -> None:
    for raw in page.findall(nodes.raw):
        if "ipynb" in raw.astext():
            raw.children = [nodes.Text(BESIDE.sub(r"\1.html", raw.astext()))]
    for entry in page.findall(nodes.entry):
        for name in list(entry.findall(nodes.literal)):
            place = f"course/{name.astext()}/{name.astext()}"
            if place in app.env.found_docs and app.env.docname != place:
                link = pending_xref(
                    "", reftype="doc", refdomain="std", reftarget=f"/{place}",
                    refexplicit=True, refdoc=app.env.docname, refwarn=True,
                )  # fmt: skip
                name.replace_self(link)
                link.append(name)
