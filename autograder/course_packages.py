"""Raise an error that says what to install, where only the library is installed."""

from importlib.util import find_spec
from typing import Final

NEEDED: Final = ("cloudpickle", "matplotlib", "platformdirs", "psutil")
"""The packages of the extra `course`, as they are imported."""

if missing := [name for name in NEEDED if find_spec(name) is None]:
    raise ModuleNotFoundError(
        f"The course needs {', '.join(missing)}, and only its library is installed here. Install "
        'the rest: pip install "shardlings[course]"',
        name=missing[0],
    )
