"""Link notebooks to their pages on the site.

Names of notebooks in tables become links, and links in the outputs of notebooks lead to pages.
"""

import re
from typing import Any, Final

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

NOTEBOOK_LINK: Final = re.compile(r'(href="\.\./(\w+)/\2)\.ipynb(?=")')
"""A link from one notebook to another in the output of `progress`."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx do this for every page that it reads."""
    app.connect("doctree-read", _link_notebooks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _link_notebooks(app: Sphinx, page: nodes.document) -> None:
    for raw in page.findall(nodes.raw):
        if "ipynb" in raw.astext():
            raw.children = [nodes.Text(NOTEBOOK_LINK.sub(r"\1.html", raw.astext()))]
    for entry in page.findall(nodes.entry):
        for name in list(entry.findall(nodes.literal)):
            page_name = f"course/{name.astext()}/{name.astext()}"
            if page_name in app.env.found_docs and app.env.docname != page_name:
                link = pending_xref(
                    "", reftype="doc", refdomain="std", reftarget=f"/{page_name}",
                    refexplicit=True, refdoc=app.env.docname, refwarn=True,
                )  # fmt: skip
                name.replace_self(link)
                link.append(name)
