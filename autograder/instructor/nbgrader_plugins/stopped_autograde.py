"""Ctrl-C in nbgrader: it stops nbgrader, too, and what it was at is as it was.

nbgrader's interface takes an interrupt for the failure of one submission, and goes on with the
next. Its commands end with a traceback.
"""

from typing import Any

from nbgrader import utils
from nbgrader.apps import api, autogradeapp

from autograder.instructor.course import STATUSES, STOPPED, stoppable


class _Watched:
    """Something that nbgrader starts, whose interrupt is not forgotten."""

    def __init__(self, app: Any) -> None:
        self.app, self.log = app, app.log
        self.interrupt: KeyboardInterrupt | None = None

    def start(self) -> None:
        """Start it.

        Raises:
            KeyboardInterrupt: it was interrupted, which is kept, too.
        """
        try:
            self.app.start()
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt
            raise


def capture_log(app: Any, fmt: str = "[%(levelname)s] %(message)s") -> dict[str, Any]:
    """Nbgrader's own, but for an interrupt, which stops more than one submission.

    Raises:
        KeyboardInterrupt: there was one.
    """
    watched = _Watched(app)
    done: dict[str, Any] = utils.capture_log(watched, fmt)
    if watched.interrupt is not None:
        raise watched.interrupt
    return done


def _stopping(start: Any) -> Any:
    """The start of one of nbgrader's commands, which says what is kept where it is stopped."""

    def started(self: Any) -> None:
        try:
            with stoppable():
                start(self)
        except SystemExit as end:
            if end.code in STATUSES:
                self.log.error(STOPPED)
            raise

    started.is_ours = True  # type: ignore[attr-defined]
    return started


def install_stopping() -> None:
    """Have nbgrader stop so."""
    api.capture_log = capture_log
    app = autogradeapp.AutogradeApp
    if not hasattr(app.start, "is_ours"):
        app.start = _stopping(app.start)
