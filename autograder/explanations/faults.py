"""The words for an error of ours, as a learner reads them."""

from shardlings.errors import Fault, report_address, versions_in_words


def explain_fault(fault: Fault) -> tuple[str, str]:
    """Return two sentences for a learner: what happened, and what to do about it."""
    return (
        f"This is not your answer's fault: Shardlings itself failed while it looked at your "
        f"answer. The error was {fault}.",
        f"Your answer has not been judged, and restarting or running it again is unlikely to help. "
        f"{versions_in_words()} Please report this message at {report_address()}.",
    )
