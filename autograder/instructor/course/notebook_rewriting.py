"""Parse a submitted notebook and print a checked one of bounded size, or why there is none.

This is a script for a process of its own, with limits, so that a malicious file can harm nothing
else. It reads the file's bytes from standard input and prints JSON. It imports nothing of this
package, which would take longer than reading a notebook.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

MAX_CELLS: Final = 500
"""The notebooks of this course have less than a hundred."""

MAX_SOURCE_CHARACTERS: Final = 2**18
"""Of all cells; those of this course have at most 25,000."""

MAX_PICTURE_CHARACTERS: Final = 2**23
"""Of pasted pictures, each counted as often as it is referred to."""

MAX_METADATA_NAME: Final = 200
"""Characters of a name in a cell's metadata."""

TAGS, PASTED = 20, 100
"""How many tags of a cell are looked at, and how many pictures that were pasted into it."""

CELL_ID: Final = re.compile(r"[a-zA-Z0-9-_]{1,64}")
"""What the notebook format takes for a cell's id."""

MAX_BLANK: Final = 100
"""Spaces and empty lines of code in a row; colouring them takes time that grows as the square."""

BLANK: Final = re.compile(rf"\s{{{MAX_BLANK},}}")

PICTURE_TYPES: Final = ("image/png", "image/jpeg", "image/gif")
"""The pictures that pages show."""

BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")
"""What a picture is written in."""

WRITTEN_OUT: Final = re.compile(r"data:(image/[\w.+-]{1,40})([\w.;=-]{0,80}),([^\s\"'()<>]*)")
"""A picture that stands in the text itself, as Colab pastes it."""

UNSHOWN: Final = "attachment:left-out"
"""What a picture is first called that pages do not show."""

UNSHOWN_REFERENCE: Final = re.compile(
    rf"!\[[^\[\]]{{0,200}}\]\(\s?<?{UNSHOWN}>?(\s+\"[^\"]{{0,200}}\")?\)"
    rf"|<img\b[^<>]{{0,300}}{UNSHOWN}[^<>]{{0,300}}>|{UNSHOWN}"
)
"""All that refers to such a picture."""

LEFT_OUT: Final = "(A picture is left out here: PNG, JPEG and GIF are shown.)"
"""What stands in its place."""

NBGRADERS: Final = {
    "schema_version": int, "grade": bool, "locked": bool, "solution": bool, "task": bool,
    "grade_id": str, "points": float, "checksum": str, "cell_type": str,
}  # fmt: skip
"""What nbgrader's metadata of a cell has by its schema; the gradebook has the last word on it."""

KEPT_METADATA: Final = {"editable": bool, "deletable": bool}
"""What is kept of a cell's other metadata, besides its tags."""


class NotebookRefusedError(ValueError):
    """A notebook that cannot be taken; the message says why, as the end of a sentence."""


def rewritten(came: bytes) -> dict[str, Any]:
    """A notebook of the newest format, made of what a notebook has that is graded and shown.

    Outputs are left out, since it is run again, and so is all metadata that nobody reads here:
    widgets' states, what Colab, Kaggle and VS Code remember, and whatever else there may be.

    Args:
        came: what was handed in.

    Returns:
        The notebook, and what is to be said of it: `{"notebook": …, "said": […]}`.

    Raises:
        RefusedError: it cannot be taken.
    """
    cells = _cells(_parsed(came))
    if len(cells) > MAX_CELLS:
        raise NotebookRefusedError(f"it has {len(cells):,} cells, and {MAX_CELLS} are taken")
    ids: set[str] = set()
    made = [_cell(number, cell, ids) for number, cell in enumerate(cells, 1)]
    written = sum(len(cell["source"]) for cell in made)
    if written > MAX_SOURCE_CHARACTERS:
        raise NotebookRefusedError(
            f"its cells have {written:,} characters, and {MAX_SOURCE_CHARACTERS:,} are taken"
        )
    notebook = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return {"notebook": notebook, "said": _show_no_more_pictures_than_fit(made)}


def _parsed(came: bytes) -> dict[str, Any]:
    """The JSON of a notebook whose format is known."""
    try:
        text = came.decode()
    except UnicodeDecodeError as error:
        raise NotebookRefusedError(
            f"it is not UTF-8 text from byte {error.start} on. Save it as UTF-8"
        ) from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        if text.startswith("\ufeff"):
            why = "it starts with a byte order mark; save it as UTF-8 without one"
        elif text.lstrip().startswith("<"):
            why = "a web page was saved in its place. Download the notebook, and hand it in again"
        elif text.strip() and not text.lstrip().startswith("{"):
            why = "it is not a notebook's JSON"
        else:
            why = (
                f"its JSON breaks off at line {error.lineno}. It was probably cut off on the way, "
                f"and has to be handed in again"
            )
        raise NotebookRefusedError(why) from None
    except (ValueError, RecursionError):  # a number of five thousand digits, or brackets
        raise NotebookRefusedError("it is not a notebook's JSON") from None
    if not isinstance(data, dict) or data.get("nbformat") not in (3, 4):
        raise NotebookRefusedError("it is not a notebook's JSON, of format 3 or 4")
    return data


def _cells(data: dict[str, Any]) -> list[Any]:
    """Its cells, as the newest format has them."""
    if data["nbformat"] == 4:
        return _listed(data.get("cells"))
    sheets = _listed(data.get("worksheets"))
    old = [_third(cell) for sheet in sheets for cell in _listed(_of(sheet, "cells"))]
    if len(old) > MAX_CELLS:
        return old
    import nbformat  # which takes longer than all the rest, and is needed for nothing else

    third = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": old}]}
    try:
        return _listed(nbformat.reads(json.dumps(third), 4)["cells"])
    except Exception:  # whatever is wrong with it, nbformat may raise anything
        raise NotebookRefusedError("it is not a notebook of format 3") from None


def _third(came: Any) -> dict[str, Any]:
    """What is kept of a cell of format 3, so that nbformat can make a newer one of it."""
    parts = ("cell_type", "input", "source", "level")
    made = {name: came[name] for name in parts if _of(came, name) is not None}
    return {**made, "outputs": [], "metadata": _metadata(came.get("metadata"))}


def _cell(number: int, came: Any, ids: set[str]) -> dict[str, Any]:
    """One cell, made of what is known of cells."""
    kind = _of(came, "cell_type")
    if kind not in ("code", "markdown", "raw"):
        raise NotebookRefusedError(f"cell {number} is of no kind that a notebook has")
    name = came.get("id")
    if not isinstance(name, str) or not CELL_ID.fullmatch(name) or name in ids:
        name = os.urandom(4).hex()
    ids.add(name)
    source = _text(came.get("source", ""))
    if source is None:
        raise NotebookRefusedError(f"what is written in cell {number} is no text")
    cell = {
        "cell_type": kind, "id": name, "metadata": _metadata(came.get("metadata")),
        "source": source,
    }  # fmt: skip
    if kind == "code":
        short = BLANK.sub(lambda run: run[0][:MAX_BLANK], source)
        return {**cell, "source": short, "execution_count": None, "outputs": []}
    source, pictures = _pictures(source, came.get("attachments"))
    cell["source"] = source
    return {**cell, "attachments": pictures} if pictures else cell


def _metadata(came: Any) -> dict[str, Any]:
    """What is kept of a cell's metadata: nbgrader's own, its tags, and who may edit it."""
    if not isinstance(came, dict):
        return {}
    made: dict[str, Any] = _known(came, KEPT_METADATA)
    tags = came.get("tags")
    if isinstance(tags, list):
        short = (
            tag for tag in tags[:TAGS] if isinstance(tag, str) and len(tag) <= MAX_METADATA_NAME
        )
        made["tags"] = list(dict.fromkeys(t for t in map(_spelt, short) if t and "," not in t))
    if isinstance(came.get("nbgrader"), dict):
        made["nbgrader"] = _known(came["nbgrader"], NBGRADERS)
    return made


def _known(came: dict[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    """Of some data, that of a known name and of the right kind; a number is a short one."""
    made: dict[str, Any] = {}
    for name, kind in kinds.items():
        value = came.get(name)
        if kind is str and isinstance(value, str) and len(value) <= MAX_METADATA_NAME:
            made[name] = _spelt(value)
        elif isinstance(value, bool):
            made.update({name: value} if kind is bool else {})
        elif kind in (int, float) and isinstance(value, int | float) and 0 <= value < 10**6:
            made[name] = value
    return made


def _pictures(source: str, came: Any) -> tuple[str, dict[str, dict[str, str]]]:
    """The pictures of a cell that it shows, and its text, in which they are referred to.

    A picture that is written out in the text becomes one of them, so that it counts as a picture
    and not as writing. In place of what pages do not show there is a sentence.
    """
    made: dict[str, dict[str, str]] = {}
    for name, forms in islice(came.items(), PASTED) if isinstance(came, dict) else ():
        reference = f"attachment:{name}"
        if len(name) > MAX_METADATA_NAME or reference not in source or not isinstance(forms, dict):
            continue
        texts = ((form, _text(forms[form])) for form in PICTURE_TYPES if form in forms)
        kept = {form: text for form, text in texts if text is not None and BASE64.fullmatch(text)}
        if kept:
            made[name] = kept
        else:
            source = re.sub(rf"{re.escape(reference)}(?![\w.%-])", UNSHOWN, source)

    def referred_to(written: re.Match[str]) -> str:
        form, how, text = written.groups()
        shown = form in PICTURE_TYPES and how == ";base64" and BASE64.fullmatch(text)
        if not shown or len(made) == PASTED:
            return UNSHOWN
        name = f"picture-{os.urandom(4).hex()}"
        made[name] = {form: text}
        return f"attachment:{name}"

    return UNSHOWN_REFERENCE.sub(LEFT_OUT, WRITTEN_OUT.sub(referred_to, source)), made


def _show_no_more_pictures_than_fit(cells: Iterable[dict[str, Any]]) -> list[str]:
    """Take pictures from cells once there are too many; a sentence about it."""
    shown, left_out = 0, []
    for number, cell in enumerate(cells, 1):
        pasted = cell.get("attachments", {})
        sizes = [len(name) + len(text) for name in pasted for text in pasted[name].values()]
        if not sizes:
            continue
        times = cell["source"].count("![") + cell["source"].count("<img")  # whichever each is
        shown += times * max(sizes) + sum(sizes)
        if shown > MAX_PICTURE_CHARACTERS:
            del cell["attachments"]
            left_out.append(number)
    if not left_out:
        return []
    return [
        f"Pictures that were pasted into it are left out from cell {left_out[0]} on: each as often "
        f"as it is referred to, they come to more than {MAX_PICTURE_CHARACTERS // 2**20} MB."
    ]


def _text(came: Any) -> str | None:
    """Text, which the format lets be cut into lines; None where it is none."""
    if isinstance(came, list) and all(isinstance(line, str) for line in came):
        return _spelt("".join(came))
    return _spelt(came) if isinstance(came, str) else None


def _spelt(text: str) -> str:
    """The same text, but for halves of characters, which cannot be written down."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _of(came: Any, name: str) -> Any:
    return _mapping(came).get(name)


def _mapping(came: Any) -> dict[str, Any]:
    if not isinstance(came, dict):
        raise NotebookRefusedError("one of its cells is no cell")
    return came


def _listed(came: Any) -> list[Any]:
    if not isinstance(came, list):
        raise NotebookRefusedError("it has no list of cells")
    return came


def main() -> None:
    """Read bytes, write JSON."""
    try:
        made = rewritten(sys.stdin.buffer.read())
    except NotebookRefusedError as error:
        made = {"why": str(error)}
    sys.stdout.buffer.write(json.dumps(made).encode())


if __name__ == "__main__":
    main()
