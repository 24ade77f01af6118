"""Formgrader's pages, with a policy, and what lies beside a notebook never served as a page.

The Jupyter server that Formgrader is part of reads no configuration of ours, but Formgrader does,
and by then its handlers are there. A policy in the server's own configuration stands.
"""

import sys
from typing import Any, Final

from autograder.instructor.pages import FILES, of_formgrader

HEADER: Final = "Content-Security-Policy"


def install_page_policies() -> None:
    """Have Formgrader's handlers name their policies, where there are such handlers."""
    handlers: Any = sys.modules.get("nbgrader.server_extensions.formgrader.handlers")
    if handlers is None:  # to import them takes as long as to import a server
        return
    handlers.BaseHandler.content_security_policy = property(_of_pages)
    handlers.SubmissionFilesHandler.content_security_policy = property(_of_files)
    handlers.SubmissionFilesHandler.set_extra_headers = _download


def _of_pages(handler: Any) -> str:
    said = handler.settings.get("headers", {}).get(HEADER)
    mathjax = handler.settings["nbgrader_exporter"].mathjax_url
    return said or of_formgrader(mathjax)


def _of_files(_: Any) -> str:
    return FILES


def _download(handler: Any, _: str) -> None:
    handler.set_header("Content-Disposition", "attachment")
