"""A log that cannot move the cursor: nbgrader writes strangers' names there as they are."""

import logging

from autograder.instructor.course import printable


class Printable(logging.Filter):
    """Shows what cannot be seen as symbols, in what is logged; lines stay lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a record; none is left out."""
        record.msg = "\n".join(map(printable, record.getMessage().split("\n")))
        record.args = ()
        return True


def keep_printable(log: logging.Logger) -> None:
    """Have everything that is said on a log made printable."""
    if not any(isinstance(each, Printable) for each in log.filters):
        log.addFilter(Printable())
