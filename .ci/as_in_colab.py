"""Every notebook, as it is met in Colab and Kaggle: run where the package is not installed.

The notebook's own first cell installs it, from the folder `SHARDLINGS_SOURCE`, and asks no server
for newer releases. First come the notebooks as
they are handed out, from top to bottom with nothing filled in; then their solutions, each of whose
checks has to find everything right.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent


def run(path: Path, mark: str) -> list[str]:
    """Run a notebook; what its checks said that does not begin with a mark."""
    notebook = nbformat.read(path, 4)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SHARDLINGS_STATE"] = folder
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    checks = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade")]
    if not checks:
        return ["It has no checks, so nothing was seen."]
    said = [
        next((o.data["text/plain"] for o in cell.outputs if "text/html" in o.get("data", {})), "")
        for cell in checks
    ]
    return [words for words in said if not words.startswith(mark)]


def main() -> int:
    """Run them all; how many had something to say."""
    os.environ["GIT_ALLOW_PROTOCOL"] = "file"
    failures = 0
    for folder, mark in (("course", "○"), ("solutions", "✓")):
        paths = sorted((ROOT / folder).glob("*/*.ipynb"))
        failures += not paths  # where nothing was run, nothing has passed
        for path in paths:
            began = time.monotonic()
            wrong = run(path, mark)
            failures += bool(wrong)
            print(f"{path.relative_to(ROOT)}: {time.monotonic() - began:.0f} s", *wrong, sep="\n")
    return failures


if __name__ == "__main__":
    sys.exit(main())
