"""What is heard of a kernel, which may be anybody's by now and say anything."""

from collections import defaultdict
from typing import Any, Final

import nbformat
import zmq
from jupyter_client.asynchronous.client import AsyncKernelClient
from nbformat.v4 import output_from_msg

KEPT: Final = frozenset({"stream", "display_data", "execute_result", "error"})
"""The messages that a notebook's outputs are made of; those to widgets have nobody here."""

MESSAGE: Final = 2**26
"""The most bytes of one part of a message: a larger one ends the conversation."""

DEEP: Final = 64
"""How deep what a kernel says may be nested: Python's own copying ends somewhere."""

NEVER: Final = 2**30
"""A time in milliseconds until which no grading lasts."""

LONG, LINES = 2**12, 100
"""The most characters of a line of an error, and the most lines."""


def bound(context: Any) -> None:
    """Have the connections of a context made once, and take messages of a bounded size."""
    context.setsockopt(zmq.RECONNECT_IVL, NEVER)  # who stands there later is not the kernel
    context.setsockopt(zmq.MAXMSGSIZE, MESSAGE)


class Client(AsyncKernelClient):
    """Speaks with a kernel over bounded connections."""

    def start_channels(self, *_: Any, **__: Any) -> None:
        """Connect, but for heartbeats: those look for the kernel's socket again and again."""
        bound(self.context)
        super().start_channels(hb=False)


class Allowance:
    """How much is kept of what the cells of a notebook say.

    Args:
        cell: the most characters of one cell.
        notebook: the most of all.
    """

    def __init__(self, cell: int, notebook: int) -> None:
        self.cell, self.notebook = cell, notebook
        self.said = defaultdict[int, int](int)

    def takes(self, content: Any, index: int) -> bool:
        """Whether a message of a cell can be kept; where it can, it is counted."""
        if depth(content) > DEEP:
            return False
        size = len(str(content))
        taken = (
            self.said[index] + size <= self.cell
            and sum(self.said.values()) + size <= self.notebook
        )  # fmt: skip
        self.said[index] += size if taken else 0
        return taken


def depth(content: Any) -> int:
    """How deep plain data is nested; of what is too deep to keep, one more than that."""
    deep, level = 0, [content]
    while deep <= DEEP:
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            break
        deep += 1
        level = [i for each in level for i in (each.values() if isinstance(each, dict) else each)]
    return deep


def shorten_error(content: dict[str, Any]) -> None:
    """Keep of an error what can be read: it may be as long as a cell likes."""
    for part in ("ename", "evalue"):
        content[part] = str(content.get(part))[:LONG]
    lines = content.get("traceback")
    kept = lines[-LINES:] if isinstance(lines, list) else []
    content["traceback"] = [str(line)[:LONG] for line in kept]


def heard(message: Any, index: int, allowance: Allowance) -> Any:
    """The output that a message of a cell makes; None for what is no output, or cannot be kept."""
    try:
        content = message["content"]
        if message["header"]["msg_type"] not in KEPT or not allowance.takes(content, index):
            return None
        if message["header"]["msg_type"] == "error":
            shorten_error(content)
        content["metadata"] = {}  # a picture's width goes into nbconvert's pages as it is
        output = output_from_msg(message)
        nbformat.validate(output, ref="output", version=4)
    except Exception:  # it may say anything, and it is only itself that it harms
        return None
    return output
