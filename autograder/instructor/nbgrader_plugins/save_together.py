"""A submission's scores are entered in one transaction: all of a notebook's, or none."""

from typing import Any

from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades


class SaveTogether(SaveAutoGrades):
    """nbgrader's `SaveAutoGrades`, which writes each cell's score by itself."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Enter what the cells of a notebook have earned."""
        about = resources["nbgrader"]
        self.notebook_id, self.assignment_id = about["notebook"], about["assignment"]
        self.student_id, self.db_url = about["student"], about["db_url"]
        with Gradebook(self.db_url) as self.gradebook:
            session: Any = self.gradebook.db
            commit, session.commit = session.commit, session.flush
            done: tuple[Any, Any] = NbGraderPreprocessor.preprocess(self, nb, resources)
            commit()
        return done
