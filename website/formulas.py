"""Formulas as MathML, which browsers draw by themselves: no script, and no font to fetch.

docutils has a translator from LaTeX to MathML; Sphinx does not offer it by itself.
"""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer it to Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _inline(page: Any, node: nodes.math) -> None:
    page.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(page: Any, node: nodes.math_block) -> None:
    formula = tex2mathml(node.astext(), as_block=True)
    page.body.append(f'<div class="formula" tabindex="0">{formula}</div>')
    raise nodes.SkipNode
