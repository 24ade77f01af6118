"""A new gradebook's version, read without another process."""

import subprocess
import sysconfig
from pathlib import Path

import nbgrader.api
import pytest
from nbgrader.dbutil import write_alembic_ini

from autograder.instructor.nbgrader_plugins import configuration


@pytest.mark.slow
def test_it_is_what_alembic_itself_says(tmp_path):
    write_alembic_ini(str(tmp_path / "alembic.ini"))
    alembic = Path(sysconfig.get_path("scripts"), "alembic")
    said = subprocess.check_output([alembic, "heads"], cwd=tmp_path, text=True)
    assert said.split() == [configuration.read_schema_version(), "(head)"]


def test_a_new_gradebook_has_it_and_no_process_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    configuration.install_gradebook_version()
    with nbgrader.api.Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        written = gradebook.db.execute(nbgrader.api.text("SELECT * FROM alembic_version"))
        assert written.all() == [(configuration.read_schema_version(),)]
