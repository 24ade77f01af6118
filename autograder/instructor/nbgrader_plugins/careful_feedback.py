"""nbgrader's own feedback pages, made careful: browsers are told what they may do."""

import html
from typing import Any, Final

from nbgrader.apps import api, generatefeedbackapp
from nbgrader.converters import GenerateFeedback

from autograder.instructor.nbgrader_plugins.page_policies import of_feedback
from autograder.instructor.nbgrader_plugins.printable_log import keep_printable

FOR_PAPER: Final = (
    "<style>@media print { pre { white-space: pre-wrap !important; overflow-wrap: anywhere; } "
    "svg, tr { break-inside: avoid; } }</style>"
)
"""On paper nothing can be scrolled: lines of code are broken, and pictures are not."""


class CarefulFeedback(GenerateFeedback):
    """Makes pages that ask for nothing elsewhere, but for what shows formulas."""

    def start(self) -> None:
        """Make the pages that were asked for."""
        keep_printable(self.log)
        super().start()

    def write_single_notebook(self, output: str, resources: Any) -> None:
        """Write a page, with its policy before anything else of it."""
        policy = html.escape(of_feedback(self.exporter.mathjax_url))
        meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        head = f"<head>{meta}{FOR_PAPER}"
        super().write_single_notebook(output.replace("<head>", head, 1), resources)


def install() -> None:
    """Have nbgrader make feedback pages so."""
    generatefeedbackapp.GenerateFeedback = api.GenerateFeedback = CarefulFeedback
