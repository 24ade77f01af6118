"""Seeds of the inputs that answers are tried with, derived from a secret of the class.

A submission gets the same inputs whenever it is graded, so neither its score nor the numbers in its
feedback change by chance. One that was changed gets others, so inputs that a feedback page has
shown are of no use. Nobody without the secret can predict any of them.
"""

import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from autograder.instructor.commands import write_first

SECRET_BYTES: Final = 32


def read_secret(root: Path) -> bytes:
    """Return a class's secret, which is made on the first call.

    Args:
        root: the course's folder.

    Raises:
        OSError: it cannot be read, or not be written.
    """
    # assignments are calibrated side by side, and all of them get the same
    return write_first(root / "grading" / "secret", secrets.token_bytes(SECRET_BYTES))


class Seeds(NamedTuple):
    """The seeds for one notebook of a submission.

    Attributes:
        kernel: for inputs that answers are called with in the kernel, which can see them.
        judge: for inputs that no kernel can know, too large for a submission to try all seeds.
    """

    kernel: int
    judge: int


def derive_seeds(secret: bytes, files: Iterable[tuple[str, bytes]]) -> Seeds:
    """Return the seeds for a notebook.

    Args:
        secret: the class's secret.
        files: the names and contents of the notebook and of the files beside it.
    """
    digest = hmac.new(secret, digestmod="sha512")
    for part in (part for name, contents in files for part in (os.fsencode(name), contents)):
        digest.update(len(part).to_bytes(8) + part)
    whole = digest.digest()
    return Seeds(int.from_bytes(whole[:4]), int.from_bytes(whole[-16:]))
