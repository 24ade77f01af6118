"""Errors that teach: a notebook shows the sentence alone, without a traceback."""


class ShortError(Exception):
    """An error whose message says all that its reader needs."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]
