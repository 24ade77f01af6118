"""What browsers are told that pages may do: the second wall, behind what is cleaned.

A feedback page runs no script and asks for nothing. Formgrader's pages have scripts of nbgrader's
own within them, and MathJax's from elsewhere, which makes scripts of its configuration. So their
policy cannot tell those from a stranger's; it can keep a page from asking for anything elsewhere,
from sending anything there, and from being framed.
"""

from typing import Final
from urllib.parse import urlparse

FILES: Final = "sandbox; default-src 'none'; frame-ancestors 'none'"
"""Of what lies beside a notebook: if a browser takes it for a page, it can do nothing at all."""


FEEDBACK: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""Of a feedback page, which is one file and runs nothing."""


def of_formgrader(mathjax: str) -> str:
    """The policy of Formgrader's pages, which come with files of its own.

    Args:
        mathjax: the address of what shows formulas.
    """
    there = _origin(mathjax)
    return (
        f"default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' {there}; "
        f"style-src 'self' 'unsafe-inline' {there}; font-src 'self' data: {there}; "
        f"img-src 'self' data: {there}; connect-src 'self'; base-uri 'none'; form-action 'self'; "
        f"frame-ancestors 'self'"
    )


def _origin(address: str) -> str:
    """Where an address is: the part that a policy names; nothing where it is our own."""
    parts = urlparse(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
