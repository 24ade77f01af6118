"""Parse a submitted notebook and print a checked one of bounded size, or why it is refused.

This is a script for a process of its own in the sandbox, so that a malicious file can do no harm.
It reads the file's bytes from standard input and prints JSON; its argument is its limit in seconds
of CPU time. It does not import the package, which would take longer than reading a notebook.
`reading_submissions.py` runs it.
"""

import ast
import json
import os
import re
import signal
import symtable
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, NoReturn

PASSED_LIMIT: Final = b'{"passed_limit": true}'
"""The reply if reading the notebook takes too much time or memory."""

MAX_CELLS: Final = 500
"""The notebooks of this course have less than 100."""

MAX_SOURCE_CHARACTERS: Final = 2**18
"""A limit for all cells together; a notebook of this course has at most 25,000."""

MAX_PICTURE_CHARACTERS: Final = 2**23
"""A limit for all pasted pictures, each counted as often as the text refers to it."""

MAX_METADATA_CHARACTERS: Final = 200
"""A limit for each tag, and each name or value in a cell's metadata."""

MAX_TAGS: Final = 20
"""The maximum number of tags that are kept of a cell."""

MAX_PASTED_PICTURES: Final = 100
"""The maximum number of pictures that are kept of a cell."""

CELL_ID: Final = re.compile(r"[a-zA-Z0-9-_]{1,64}")
"""The ids that the notebook format allows for cells."""

MAX_BLANK_CHARACTERS: Final = 100
"""A limit for whitespace in a row in code; syntax highlighting takes quadratic time for it."""

LONG_BLANK: Final = re.compile(rf"\s{{{MAX_BLANK_CHARACTERS},}}")

PICTURE_TYPES: Final = ("image/png", "image/jpeg", "image/gif")
"""The types of pictures that feedback pages show."""

BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]*")
"""The encoding of a picture."""

DATA_URL: Final = re.compile(r"data:(image/[\w.+-]{1,40})([\w.;=-]{0,80}),([^\s\"'()<>]*)")
"""A picture in the text itself, as Colab pastes it."""

UNSHOWN_URL: Final = "attachment:left-out"
"""A placeholder for a picture that feedback pages do not show."""

UNSHOWN_REFERENCE: Final = re.compile(
    rf"!\[[^\[\]]{{0,200}}\]\(\s?<?{UNSHOWN_URL}>?(\s+\"[^\"]{{0,200}}\")?\)"
    rf"|<img\b[^<>]{{0,300}}{UNSHOWN_URL}[^<>]{{0,300}}>|{UNSHOWN_URL}"
)
"""A Markdown or HTML image with this placeholder, or the placeholder alone."""

LEFT_OUT: Final = "(A picture is left out here: PNG, JPEG and GIF are shown.)"
"""The text in place of such a picture."""

NBGRADER_METADATA: Final = {
    "schema_version": int, "grade": bool, "locked": bool, "solution": bool, "task": bool,
    "grade_id": str, "points": float, "checksum": str, "cell_type": str,
}  # fmt: skip
"""nbgrader's metadata of a cell, by its schema; grading uses the gradebook's in its place."""

KEPT_METADATA: Final = {"editable": bool, "deletable": bool}
"""The other metadata of a cell that is kept, besides its tags."""


WORD: Final = re.compile(r"[^\W\d]\w*")
"""Matches what may be a name."""

MAX_PARSED_CHARACTERS: Final = 20_000
"""The longest cell in which the names that it reads are looked for."""

READS_ANY_NAME: Final = re.compile(
    r"__\w+__|f_(?:back|globals|locals)|eval|exec|compile|globals|locals|vars|breakpoint"
    r"|IPython|get_ipython|user_ns|builtins|gc|importlib|inspect|sys|get_type_hints|live_arrays"
    r"|In|Out|_[iod]h|_{1,3}|_i{1,3}|_i?\d+"
)
"""Matches names through which a cell may read others, or what an earlier cell returned."""


class NotebookRefusedError(ValueError):
    """A notebook is refused; the message says why, as the end of a sentence."""


def rewrite_notebook(contents: bytes) -> dict[str, Any]:
    """Make a notebook of the newest format from the parts of a file that are graded and shown.

    Outputs are left out, because the notebook is run again. So is all metadata that grading does
    not read, such as widgets' states and the settings of Colab, Kaggle and VS Code.

    Args:
        contents: the submitted file.

    Returns:
        The notebook, sentences about what was left out, and the names that each code cell reads,
        by its source: `{"notebook": …, "notes": […], "read_names": {…}}`.

    Raises:
        NotebookRefusedError: the file is refused.
    """
    cells = _read_cells(_parse_json(contents))
    if len(cells) > MAX_CELLS:
        raise NotebookRefusedError(f"it has {len(cells):,} cells, and {MAX_CELLS} are taken")
    ids: set[str] = set()
    new_cells = [_rewrite_cell(number, cell, ids) for number, cell in enumerate(cells, 1)]
    characters = sum(len(cell["source"]) for cell in new_cells)
    if characters > MAX_SOURCE_CHARACTERS:
        raise NotebookRefusedError(
            f"its cells have {characters:,} characters, and {MAX_SOURCE_CHARACTERS:,} are taken"
        )
    notebook = {"cells": new_cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    code = (cell["source"] for cell in new_cells if cell["cell_type"] == "code")
    return {
        "notebook": notebook,
        "notes": _drop_pictures_beyond_limit(new_cells),
        "read_names": {source: find_read_names(source) for source in code},
    }


def find_read_names(source: str) -> list[str] | None:
    """Return the names that a cell reads from its notebook; None if it may read any.

    For example:

        >>> find_read_names("f = lambda x: x @ W")
        ['W']
    """
    if len(source) > MAX_PARSED_CHARACTERS:
        return None
    try:
        names = list_read_names(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a magic, for example
        return None
    # attributes, too, such as that of `f.__globals__`, and modules; as Python reads their letters
    text = unicodedata.normalize("NFKC", source)
    others = re.findall(
        r"__\w+__|f_\w+|user_ns|get_type_hints|live_arrays|(?<=from )\w+|(?<=import )\w+", text
    )
    mentioned = {*names, *others}
    return None if any(map(READS_ANY_NAME.fullmatch, mentioned)) else sorted(names)


def list_read_names(source: str) -> set[str]:
    """Return the names that a cell reads from its notebook, in a function or outside of any.

    A name that the cell also binds may be among them, as it need not be bound yet when it is read.

    Raises:
        SyntaxError: the cell is not Python.
    """
    tables = [symtable.symtable(source, "cell", "exec")]
    names = {symbol.get_name() for symbol in tables[0].get_symbols() if symbol.is_referenced()}
    for node in ast.walk(ast.parse(source)):
        match node:  # for a symbol table these only bind a name
            case ast.AugAssign(target=ast.Name(id=name)) | ast.Name(id=name, ctx=ast.Del()):
                names.add(name)
    while tables:
        tables += (inner := tables.pop().get_children())
        for table in inner:
            is_in_class = table.get_type() == "class"  # where `y = y` reads the notebook's
            names |= {
                symbol.get_name()
                for symbol in table.get_symbols()
                if symbol.is_global() or (is_in_class and symbol.is_referenced())
            }
    return names


def _parse_json(contents: bytes) -> dict[str, Any]:
    """Parse the JSON of a notebook, and check its format's version."""
    try:
        text = contents.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotebookRefusedError(
            f"it is not UTF-8 text from byte {error.start} on. Save it as UTF-8"
        ) from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("<"):
            why = "a web page was saved in its place. Download the notebook, and hand it in again"
        elif text.strip() and not text.lstrip().startswith("{"):
            why = "it is not a notebook's JSON"
        else:
            why = (
                f"its JSON breaks off at line {error.lineno}. It was probably cut off on the way, "
                f"and has to be handed in again"
            )
        raise NotebookRefusedError(why) from None
    except (ValueError, RecursionError):  # a number of 5,000 digits, or deeply nested brackets
        raise NotebookRefusedError("it is not a notebook's JSON") from None
    if not isinstance(data, dict) or data.get("nbformat") not in (3, 4):
        raise NotebookRefusedError("it is not a notebook's JSON, of format 3 or 4")
    return data


def _read_cells(data: dict[str, Any]) -> list[Any]:
    """Return a notebook's cells in the newest format."""
    if data["nbformat"] == 4:
        return _require_list(data.get("cells"))
    sheets = _require_list(data.get("worksheets"))
    old_cells = [
        _simplify_old_cell(cell) for sheet in sheets for cell in _require_list(_get(sheet, "cells"))
    ]
    if len(old_cells) > MAX_CELLS:
        return old_cells
    import nbformat  # slow, and only needed for this format

    worksheets = [{"cells": old_cells}]
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": worksheets}
    try:
        return _require_list(nbformat.reads(json.dumps(old), 4)["cells"])
    except MemoryError:
        raise
    except Exception:  # nbformat raises many types
        raise NotebookRefusedError("it is not a notebook of format 3") from None


def _simplify_old_cell(cell: Any) -> dict[str, Any]:
    """Return the parts of a cell of format 3 from which nbformat makes a newer one."""
    parts = ("cell_type", "input", "source", "level")
    kept = {name: cell[name] for name in parts if _get(cell, name) is not None}
    return {**kept, "outputs": [], "metadata": _keep_metadata(cell.get("metadata"))}


def _rewrite_cell(number: int, cell: Any, ids: set[str]) -> dict[str, Any]:
    """Make a cell from the known parts of a submitted one, with an id that is not in `ids`."""
    kind = _get(cell, "cell_type")
    if kind not in ("code", "markdown", "raw"):
        raise NotebookRefusedError(f"cell {number} is of no kind that a notebook has")
    cell_id = cell.get("id")
    if not isinstance(cell_id, str) or not CELL_ID.fullmatch(cell_id) or cell_id in ids:
        cell_id = os.urandom(4).hex()
    ids.add(cell_id)
    source = _join_text(cell.get("source", ""))
    if source is None:
        raise NotebookRefusedError(f"what is written in cell {number} is no text")
    new_cell = {
        "cell_type": kind, "id": cell_id, "metadata": _keep_metadata(cell.get("metadata")),
        "source": source,
    }  # fmt: skip
    if kind == "code":
        short = LONG_BLANK.sub(lambda blank: blank[0][:MAX_BLANK_CHARACTERS], source)
        return {**new_cell, "source": short, "execution_count": None, "outputs": []}
    source, pictures = _keep_pictures(source, cell.get("attachments"))
    new_cell["source"] = source
    return {**new_cell, "attachments": pictures} if pictures else new_cell


def _keep_metadata(metadata: Any) -> dict[str, Any]:
    """Return the parts of a cell's metadata that are kept, among these nbgrader's, and its tags."""
    if not isinstance(metadata, dict):
        return {}
    kept: dict[str, Any] = _keep_known(metadata, KEPT_METADATA)
    tags = metadata.get("tags")
    if isinstance(tags, list):
        short = (
            _replace_surrogates(tag)
            for tag in tags[:MAX_TAGS]
            if isinstance(tag, str) and len(tag) <= MAX_METADATA_CHARACTERS
        )
        kept["tags"] = list(dict.fromkeys(tag for tag in short if tag and "," not in tag))
    if isinstance(metadata.get("nbgrader"), dict):
        kept["nbgrader"] = _keep_known(metadata["nbgrader"], NBGRADER_METADATA)
    return kept


def _keep_known(data: dict[str, Any], types: Mapping[str, type]) -> dict[str, Any]:
    """Return the items of known names and types, without long strings and large numbers."""
    kept: dict[str, Any] = {}
    for name, type_ in types.items():
        value = data.get(name)
        if type_ is str and isinstance(value, str) and len(value) <= MAX_METADATA_CHARACTERS:
            kept[name] = _replace_surrogates(value)
        elif isinstance(value, bool):
            kept.update({name: value} if type_ is bool else {})
        elif type_ in (int, float) and isinstance(value, int | float) and 0 <= value < 10**6:
            kept[name] = value
    return kept


def _keep_pictures(source: str, attachments: Any) -> tuple[str, dict[str, dict[str, str]]]:
    """Keep the attached pictures that a cell refers to and that pages show.

    A picture in the text itself becomes an attachment, so that it counts as a picture and not as
    text. A sentence replaces each picture that pages do not show.

    Returns:
        The cell's new source, and its attachments.
    """
    pictures: dict[str, dict[str, str]] = {}
    pasted = attachments.items() if isinstance(attachments, dict) else ()
    for name, formats in islice(pasted, MAX_PASTED_PICTURES):
        reference = f"attachment:{name}"
        is_short = len(name) <= MAX_METADATA_CHARACTERS
        if not (is_short and reference in source and isinstance(formats, dict)):
            continue
        texts = ((type_, _join_text(formats[type_])) for type_ in PICTURE_TYPES if type_ in formats)
        kept = {type_: text for type_, text in texts if text is not None and BASE64.fullmatch(text)}
        if kept:
            pictures[name] = kept
        else:
            source = re.sub(rf"{re.escape(reference)}(?![\w.%-])", UNSHOWN_URL, source)

    def attach(data_url: re.Match[str]) -> str:
        type_, parameters, text = data_url.groups()
        is_shown = type_ in PICTURE_TYPES and parameters == ";base64" and BASE64.fullmatch(text)
        if not is_shown or len(pictures) == MAX_PASTED_PICTURES:
            return UNSHOWN_URL
        name = f"picture-{os.urandom(4).hex()}"
        pictures[name] = {type_: text}
        return f"attachment:{name}"

    return UNSHOWN_REFERENCE.sub(LEFT_OUT, DATA_URL.sub(attach, source)), pictures


def _drop_pictures_beyond_limit(cells: Iterable[dict[str, Any]]) -> list[str]:
    """Remove pictures from cells once they exceed the limit; return sentences about that."""
    shown_characters, left_out = 0, []
    for number, cell in enumerate(cells, 1):
        pasted = cell.get("attachments", {})
        sizes = [len(name) + len(text) for name in pasted for text in pasted[name].values()]
        if not sizes:
            continue
        # at most: each reference may be to the largest picture
        references = cell["source"].count("![") + cell["source"].count("<img")
        shown_characters += references * max(sizes) + sum(sizes)
        if shown_characters > MAX_PICTURE_CHARACTERS:
            del cell["attachments"]
            left_out.append(number)
    if not left_out:
        return []
    return [
        f"Pictures that were pasted into it are left out from cell {left_out[0]} on: each as often "
        f"as it is referred to, they come to more than {MAX_PICTURE_CHARACTERS // 2**20} MB."
    ]


def _join_text(text: Any) -> str | None:
    """Join text, which the format allows to be a list of lines; return None if it is not text."""
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return _replace_surrogates("".join(text))
    return _replace_surrogates(text) if isinstance(text, str) else None


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _get(cell: Any, name: str) -> Any:
    if not isinstance(cell, dict):
        raise NotebookRefusedError("one of its cells is no cell")
    return cell.get(name)


def _require_list(cells: Any) -> list[Any]:
    if not isinstance(cells, list):
        raise NotebookRefusedError("it has no list of cells")
    return cells


def main(cpu_seconds: float) -> None:
    """Read a notebook's bytes from standard input, and write JSON to standard output.

    Args:
        cpu_seconds: the limit in CPU time.
    """
    _limit_cpu_seconds(cpu_seconds)
    try:
        reply = json.dumps(rewrite_notebook(sys.stdin.buffer.read())).encode()
    except NotebookRefusedError as error:
        reply = json.dumps({"why": str(error)}).encode()
    except MemoryError:
        reply = PASSED_LIMIT
    _limit_cpu_seconds(0)
    sys.stdout.buffer.write(reply)


def _limit_cpu_seconds(seconds: float) -> None:
    """Report that the limit is passed once this process has used so many seconds more; 0: never."""
    if sys.platform != "win32":  # Windows has no such timer
        signal.signal(signal.SIGPROF, _report_passed_limit)
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _report_passed_limit(*_: object) -> NoReturn:
    os.write(1, PASSED_LIMIT)
    os._exit(0)


if __name__ == "__main__":
    main(float(sys.argv[1]))
