"""Preprocessors that make a notebook for students from an instructor's."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlparse

from IPython.core.inputtransformer2 import TransformerManager
from jupyter_client.manager import run_kernel
from nbgrader.preprocessors import InstantiateTests, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Unicode

from shardlings.documents import with_noun


class RefusedReleaseError(ValueError):
    """A notebook is not released, because something in it is wrong; the message says what."""


class Publish(NbGraderPreprocessor):
    """Writes the repository's address and the release's tag into a notebook."""

    pyproject = Unicode("pyproject.toml", help="Where the address and the version stand.").tag(
        config=True
    )

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Replace `{{repository}}`, `{{repository_name}}` and `{{release}}` in every cell."""
        # read only if needed, because a course may have no repository
        if any("{{repository" in cell.source for cell in nb.cells):
            project = tomllib.loads(Path(self.pyproject).read_text())["project"]
            address = project["urls"]["Repository"].removesuffix("/")
            for cell in nb.cells:
                source = cell.source.replace("{{repository}}", address)
                source = source.replace("{{repository_name}}", urlparse(address).path[1:])
                cell.source = source.replace("{{release}}", f"v{project['version']}")
        return nb, resources


class CompleteStubs(NbGraderPreprocessor):
    """Has a function raise an error of which only a comment is left, or a docstring above it.

    Python needs a statement, and a function with a docstring alone would return None. In the
    course's own answer cells, `...` says where to write. A comment below them would not: below
    `return ...`, nothing runs.
    """

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """Add the statement below each comment in such a function."""
        if cell.cell_type == "code" and is_solution(cell):
            source_above = LAST_COMMENT.sub("", cell.source)
            cell.source = source_above if "..." in source_above else cell.source
            completed = STUB.sub(partial(_complete, cell.source), cell.source)
            if _is_python(completed):
                cell.source = completed
        return cell, resources


def _complete(source: str, comment: re.Match[str]) -> str:
    """Return a comment in an answer's source, with a statement below it if nothing is above it."""
    source_above = source[: comment.start()].rstrip()
    if _is_python(source) and source_above.count("\n") + 1 not in _docstring_ends(source):
        return comment[0]
    return f"{comment[0]}\n{comment['indent']}raise NotImplementedError()"


def _docstring_ends(source: str) -> set[int]:
    """Return the last lines of functions that have nothing but a docstring."""
    start = len(source) - len(source.lstrip("\n"))  # IPython removes empty lines there
    functions = (
        node
        for node in ast.walk(ast.parse(TransformerManager().transform_cell(source)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return {
        start + (function.end_lineno or 0)
        for function in functions
        if len(function.body) == 1 and ast.get_docstring(function) is not None
    }


LAST_COMMENT: Final = re.compile(r"\s*^# YOUR CODE HERE\s*\Z", re.MULTILINE)

STUB: Final = re.compile(r"^(?P<indent>[ \t]+)# YOUR CODE HERE$", re.MULTILINE)


def _is_python(source: str) -> bool:
    """Check whether a cell's code, with IPython's magics, can be parsed."""
    try:
        ast.parse(TransformerManager().transform_cell(source))
    except (SyntaxError, ValueError):
        return False
    return True


class ExpandTests(InstantiateTests):
    """Expands nbgrader's `### AUTOTEST` directives, and refuses tests that run nothing.

    A test cell of nothing but comments would give its points to every submission.
    """

    autotest_filename: str

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Expand directives by running the notebook with its solutions.

        Raises:
            RefusedReleaseError: a directive cannot be expanded, or a test runs nothing.
        """
        directives = [cell for cell in nb.cells if self._has_directive(cell)]
        for cell in directives:
            if not _is_test(cell):
                raise RefusedReleaseError(
                    f"A cell that is no test has an {self.autotest_delimiter} directive: "
                    f"{cell.source.strip().splitlines()[0][:80]!r}. Make it a cell of autograder "
                    f"tests in the panel Create Assignment."
                )
        if directives:
            try:
                self._expand(nb, resources)
            except RefusedReleaseError:
                raise
            except Exception as error:
                raise RefusedReleaseError(
                    f"{self.autotest_delimiter} directives cannot be expanded: "
                    f"{type(error).__name__}: {error}"
                ) from error
        for cell in filter(_is_test, nb.cells):
            if cell.metadata.nbgrader.get("points") and not any(_read_code(cell)):
                points = with_noun(cell.metadata.nbgrader.points, "point")
                raise RefusedReleaseError(
                    f"The test {cell.metadata.nbgrader.grade_id} has no code, so every submission "
                    f"would get its {points}. Write a test, or give it 0 points."
                )
        return nb, resources

    def _expand(self, nb: Any, resources: Any) -> None:
        """Do what nbgrader's `preprocess` does, and close the kernel also after an error."""
        written = nb.metadata.get("kernelspec", {}).get("name")
        name = written if written in self.sanitizers else "python3"
        resources["kernel_name"] = name
        self._load_test_template_file(resources)
        self.global_tests_loaded, self.sanitizer = True, self.sanitizers[name]
        with run_kernel(kernel_name=name, cwd=resources["metadata"]["path"]) as self.kc:
            for index, cell in enumerate(nb.cells):
                self.preprocess_cell(cell, resources, index)

    def _has_directive(self, cell: Any) -> bool:
        lines = map(str.strip, cell.source.splitlines() if cell.cell_type == "code" else ())
        return any(line.startswith("#") and self.autotest_delimiter in line for line in lines)

    def _load_test_template_file(self, resources: Any) -> None:
        """Load `autotests.yml` from the assignment's folder, or else from the course's."""
        name: str = self.autotest_filename
        folders = (resources["metadata"]["path"], self.config.CourseDirectory.get("root", "."))
        template_files = [path for folder in folders if (path := Path(folder, name)).is_file()]
        if not template_files:
            raise RefusedReleaseError(
                f"It has {self.autotest_delimiter} directives, and there is no {name} with their "
                f"templates, neither beside the notebook nor in the course's folder. nbgrader's "
                f"documentation has one to start from."
            )
        self.autotest_filename = str(template_files[0].resolve())
        try:
            super()._load_test_template_file(resources)
        finally:
            self.autotest_filename = name

    def _execute_code_snippet_output_hook(self, message: Any) -> None:
        """Keep a result, and refuse the release at an error."""
        if message["header"]["msg_type"] == "error":
            error = "{ename}: {evalue}".format(**message["content"])
            raise RefusedReleaseError(
                f"{self.autotest_delimiter} directives cannot be expanded, because the solution "
                f"raises an error: {error}"
            )
        super()._execute_code_snippet_output_hook(message)


def _is_test(cell: Any) -> bool:
    """Check whether a cell is graded by running it."""
    return cell.cell_type == "code" and is_grade(cell) and not is_solution(cell)


def _read_code(cell: Any) -> Iterator[str]:
    """Yield a cell's lines that are neither empty nor comments."""
    lines = map(str.strip, cell.source.splitlines())
    return (line for line in lines if line and not line.startswith("#"))


RELEASED_METADATA: Final = frozenset({"accelerator", "kernelspec", "language_info"})
"""The metadata of a notebook that is released; a widget's state, for example, is output."""

RELEASED_CELL_METADATA: Final = frozenset(
    {
        "_kg_hide-input",
        "cellView",
        "deletable",
        "editable",
        "jupyter",
        "nbgrader",
        "slideshow",
        "tags",
    }
)


class ClearTraces(NbGraderPreprocessor):
    """Removes what cleared solutions leave behind: attached pictures, and metadata of programs."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Keep known metadata, and the pictures to which a cell's text still refers."""
        _keep_only(nb.metadata, RELEASED_METADATA)
        for cell in nb.cells:
            _keep_only(cell.metadata, RELEASED_CELL_METADATA)
            attached = cell.pop("attachments", {})
            shown = {
                name: picture
                for name, picture in attached.items()
                if any(f"attachment:{each}" in cell.source for each in (name, quote(name)))
            }
            if shown:
                cell.attachments = shown
        return nb, resources


def _keep_only(metadata: Any, names: frozenset[str]) -> None:
    for name in metadata.keys() - names:
        del metadata[name]
