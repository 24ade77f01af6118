"""What is heard of a kernel, which may be anybody's by now and say anything."""

import json
import re
from collections import defaultdict
from typing import Any, Final

import nbformat
import zmq
from jupyter_client.asynchronous.client import AsyncKernelClient
from nbformat.v4 import output_from_msg

from autograder import evidence

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

LEAST: Final = 500
"""As how many characters each output counts at least: each is a part of a page."""

JSON: Final = re.compile(r"application/(.*\+)?json")
"""The kinds of data that need not be text."""


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

    Evidence has an allowance of its own: who prints much is to hand in none the less.

    Args:
        cell: the most characters of one cell.
        notebook: the most of all.
        handed_in: the most of all evidence.

    Attributes:
        too_large: the cells whose evidence was not kept.
    """

    def __init__(self, cell: int, notebook: int, handed_in: int) -> None:
        self.cell, self.notebook, self.handed_in = cell, notebook, handed_in
        self.said = defaultdict[int, int](int)
        self.evidence = 0
        self.too_large = set[int]()

    def takes(self, content: Any, index: int) -> bool:
        """Whether a message of a cell can be kept; where it can, it is counted."""
        if depth(content) > DEEP:
            return False
        size = len(str(content))
        if is_evidence(content):
            return self._takes_evidence(size, index)
        size = max(size, LEAST)
        taken = (
            self.said[index] + size <= self.cell
            and sum(self.said.values()) + size <= self.notebook
        )  # fmt: skip
        self.said[index] += size if taken else 0
        return taken

    def _takes_evidence(self, size: int, index: int) -> bool:
        taken = self.evidence + size <= self.handed_in
        self.evidence += size if taken else 0
        if not taken:
            self.too_large.add(index)
        return taken


def is_evidence(content: Any) -> bool:
    """Whether a message is evidence, as a check hands it in, and little else."""
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict) or evidence.MIME not in data:
        return False
    said = data.get("text/plain", "")
    return data.keys() <= {evidence.MIME, "text/plain"} and len(str(said)) <= LONG


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
        content[part] = _spelt(content.get(part))[:LONG]
    lines = content.get("traceback")
    kept = lines[-LINES:] if isinstance(lines, list) else []
    content["traceback"] = [_spelt(line)[:LONG] for line in kept]


def heard(message: Any, index: int, allowance: Allowance) -> Any:
    """The output that a message of a cell makes; None for what is no output, or cannot be kept."""
    try:
        content = message["content"]
        if message["header"]["msg_type"] not in KEPT or not allowance.takes(content, index):
            return None
        if message["header"]["msg_type"] == "error":
            shorten_error(content)
        if message["header"]["msg_type"] == "stream" and isinstance(content["text"], str):
            content["text"] = _spelt(content["text"])
        content["metadata"] = {}  # a picture's width goes into nbconvert's pages as it is
        output = output_from_msg(message)
        nbformat.validate(output, ref="output", version=4)
        if not _is_text(output):
            return None
    except Exception:  # it may say anything, and it is only itself that it harms
        return None
    return output


def _is_text(output: Any) -> bool:
    """Whether text is text wherever an output has some, and can be written down.

    In a notebook's file it may also be a list of lines, which no kernel sends, and which nobody who
    reads outputs expects.
    """
    data = output.get("data", {})
    parts = [output[name] for name in ("text", "name", "ename", "evalue") if name in output]
    parts += [text for kind, text in data.items() if not JSON.fullmatch(kind)]
    if not all(isinstance(part, str) for part in parts):
        return False
    if evidence.MIME not in data:  # which is judged as it is, and then gone
        json.dumps(output, ensure_ascii=False).encode()
    return True


def _spelt(text: object) -> str:
    """Text in which halves of characters, which cannot be written down, are spelt out."""
    return str(text).encode("utf-8", "backslashreplace").decode()
