"""Error messages for learners: our sentences without a traceback, JAX's shortened."""


class ShortError(Exception):
    """An error whose message says all that its reader needs."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(ShortError, TypeError):
    """One of the course's functions was called with something that it cannot use."""


def first_line(error: BaseException) -> str:
    """The first line of what an error says, in characters that can be written anywhere."""
    lines = said(error).strip().splitlines() or ["it gives no message"]
    line = lines[0].partition("This error occurs at source:")[0]  # it is said better elsewhere
    return line[:300].rstrip(" :.(").encode(errors="replace").decode()


def said(error: BaseException) -> str:
    """What an error says; its class may be the learner's own, and in error itself."""
    try:
        return str(error)
    except Exception as another:
        return f"its message cannot be shown, since that raised {type(another).__name__}"
