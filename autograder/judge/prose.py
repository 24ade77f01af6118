"""Mark up the code in the sentences of verdicts and hints."""

import re
from collections.abc import Iterator
from typing import Final

from autograder.explanations import JAX_SAYS
from shardlings.documents import Code, Inline, Small

ARGUMENTS: Final = r"\([^()]*(?:\([^()]*\)[^()]*)*\)"

CODE: Final = re.compile(
    r"`([^`]+)`|\b((?:hint|check)\(\"[^\"]+\"[^)]*\)|P"
    + ARGUMENTS
    + r"|(?:(?:jax|jnp|lax|np)(?:\.[A-Za-z_]\w*)+|[A-Za-z]\w*_\w+)"
    r"(?:" + ARGUMENTS + r"|=(?:True|False))?)"
)
"""Code in a sentence: text between backticks, calls of `hint` and `check`, specs, and names that
are no words, such as `jnp.sum` and `in_specs`, with the arguments of a call."""

QUOTED: Final = re.compile(r"`([^`]+)`")
"""Code in a message of JAX's."""

LEARNERS_LINE: Final = re.compile(
    r"(?:(?<= of the cell: )|(?<= of another cell: ))`(.+?)`(?=\)?(?:\.|$)|, which led to )"
)
"""A line of the learner's code, which may itself contain backticks and specs."""


def mark_up(text: str) -> tuple[Inline, ...]:
    """Return a text as a document's inline content, with its code and JAX's message marked up."""
    ours, says, message = text.partition(JAX_SAYS)
    parts: list[Inline] = []
    for i, part in enumerate(LEARNERS_LINE.split(ours)):
        is_line = i % 2  # `split` alternates between the text around matches and their group
        parts += [Code(part, "`")] if is_line else _mark_code(part, CODE)
    return (*parts, Small((says, *_mark_code(message, QUOTED)))) if says else tuple(parts)


def _mark_code(text: str, code: re.Pattern[str]) -> Iterator[Inline]:
    end = 0
    for match in code.finditer(text):
        if text[end : match.start()]:
            yield text[end : match.start()]
        quoted = match[1]
        yield Code(quoted, "`") if quoted else Code(match[0])
        end = match.end()
    if text[end:]:
        yield text[end:]
