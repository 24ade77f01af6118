"""What is to be said of a graded submission besides its score, kept beside the graded notebook."""

from pathlib import Path


def begin(folder: Path, notebook: str, sentences: list[str]) -> None:
    """Keep some sentences about a notebook, and none of those that an earlier grading kept."""
    _file(folder, notebook).unlink(missing_ok=True)  # nbgrader leaves it read-only
    for sentence in sentences:
        add(folder, notebook, sentence)


def add(folder: Path, notebook: str, sentence: str) -> None:
    """Keep a sentence more."""
    with _file(folder, notebook).open("a", encoding="utf-8") as file:
        file.write(f"{sentence}\n")


def kept(folder: Path, notebook: str) -> list[str]:
    """The sentences about a notebook in a folder."""
    path = _file(folder, notebook)
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _file(folder: Path, notebook: str) -> Path:
    return folder / f"{notebook}.note"
