"""Compare the time for computing with the time for communicating, on a named machine."""

import html
import math
from typing import Final

from autograder.pictures import bars_as_html
from autograder.programs.numbers_in_words import time_in_words
from autograder.programs.shown_report import Shown

MIN_SECONDS: Final = 1e-6
"""Below it, a machine takes longer to start sending than to send."""


def is_timed(report: Shown) -> bool:
    """Whether sending takes long enough for a time to mean anything."""
    return report.communicating >= MIN_SECONDS


def times_in_words(report: Shown) -> str:
    """What computing and communicating take on the report's machine, where that means anything."""
    if not is_timed(report) and not report.scaled:
        if not report.rows:
            return ""
        return (
            f"On {report.machine}, sending takes less than a microsecond: starting a message "
            f"costs more than sending it."
        )
    computing, communicating = report.computing, report.communicating
    if not math.isfinite(computing):
        return (
            f"On {report.machine}, communicating takes {time_in_words(communicating)}; how long "
            f"arithmetic takes is unknown, for nobody knows how much a loop does."
        )
    said = (
        f"On {report.machine}, arithmetic takes {time_in_words(computing)} and communicating "
        f"{time_in_words(communicating)}"
    )
    if max(computing, communicating) < MIN_SECONDS:
        return f"{said}. Starting either takes longer."
    if communicating > computing:
        return f"{said}. Even if both happen at once, the devices wait for data."
    return f"{said}. If both happen at once, communication is hidden behind arithmetic."


def times_as_html(report: Shown) -> str:
    """Two bars and a sentence; where nothing takes a microsecond, the sentence."""
    said = times_in_words(report)
    if not said:
        return ""
    amounts = [
        (name, amount, time_in_words(amount))
        for name, amount in (
            ("arithmetic", report.computing), ("communicating", report.communicating),
        )
        if math.isfinite(amount)
    ]  # fmt: skip
    worth = (
        max(report.computing, report.communicating) >= MIN_SECONDS and "and communicating" in said
    )
    bars = bars_as_html(amounts) if worth else ""
    return f'<div style="margin:8px 0">{bars}<div>{html.escape(said)}</div></div>'
