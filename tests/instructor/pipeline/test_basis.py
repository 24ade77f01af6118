"""What a grade rests on: which files are looked at."""

from pathlib import Path

import msgspec
import pytest

from autograder.exercises import EXERCISES, NOTEBOOKS
from autograder.exercises import notebooks as modules
from autograder.instructor.pipeline import Basis, basis, fingerprint_submission


def test_exercises_rest_on_all_modules_of_their_notebooks(monkeypatch):
    looked_at: list[str] = []

    def fingerprint_files(files, folder):
        looked_at.extend(path.stem for path in files)
        return ""

    monkeypatch.setattr(basis, "fingerprint_files", fingerprint_files)
    every = {path.stem for path in Path(modules.__file__).parent.glob("nb*.py")}
    of_one = [(each, exercises) for each, exercises in NOTEBOOKS.items() if exercises]
    mixed = ("nb01", "nb06"), (EXERCISES["1.1"], EXERCISES["6.2"])  # of an instructor's own
    for numbers, exercises in [((f"nb{n[:2]}",), them) for n, them in of_one] + [mixed]:
        looked_at.clear()
        basis._exercises(exercises)
        assert set(looked_at) & every == {n for n in every if n[:4] in numbers}
        assert "catalogue" in looked_at


def test_no_content_looks_like_another_file(tmp_path):
    """Whoever hands in files chooses their names and contents."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    (one / "a").write_bytes(b"1b\x002")
    (one / "c").write_bytes(b"3")
    (two / "a").write_bytes(b"1")
    (two / "b").write_bytes(b"2c\x003")
    assert fingerprint_submission(one) != fingerprint_submission(two)


def test_what_was_kept_in_another_form_is_not_compared():
    """Else all would seem to have handed in something else since."""
    here = Basis("", "", "", "", "", "", "", {}, 2)
    kept = msgspec.json.encode(here)
    assert msgspec.json.decode(kept, type=Basis) == here
    for form in (b"", b',"form":1'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(kept.replace(b',"form":2', form), type=Basis)
