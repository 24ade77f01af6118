"""Say what to install where there is only the library, which the course needs more than."""

from importlib.util import find_spec
from typing import Final

NEEDED: Final = ("cloudpickle", "matplotlib", "platformdirs", "psutil")
"""What the extra `course` installs."""

if missing := [name for name in NEEDED if find_spec(name) is None]:
    raise ModuleNotFoundError(
        f"The course needs {', '.join(missing)}, and what you have installed is only the library "
        '`shardlings`. Install the rest of the course: pip install "shardlings[course]"',
        name=missing[0],
    )
