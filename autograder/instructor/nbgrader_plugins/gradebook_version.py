"""The version that nbgrader writes into a new gradebook, found without another process.

nbgrader runs `alembic heads` for it, which imports all of nbgrader once more: four seconds.
"""

import nbgrader.api
from alembic.script import ScriptDirectory
from nbgrader.dbutil import ALEMBIC_DIR


def newest_version() -> str:
    """What `alembic heads` says of nbgrader's gradebooks."""
    return str(ScriptDirectory(ALEMBIC_DIR).get_current_head())


def install_gradebook_version() -> None:
    """Have nbgrader ask this."""
    nbgrader.api.get_alembic_version = newest_version
