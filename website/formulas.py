"""Formulas as MathML, which browsers draw without scripts or fonts from elsewhere.

docutils translates LaTeX to MathML; Sphinx has no renderer that uses it.
"""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _inline(page: Any, node: nodes.math) -> None:
    page.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(page: Any, node: nodes.math_block) -> None:
    formula = tex2mathml(node.astext(), as_block=True)
    page.body.append(f'<div class="formula" tabindex="0">{formula}</div>')
    raise nodes.SkipNode
