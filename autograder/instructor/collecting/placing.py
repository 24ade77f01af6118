"""A submission put where it belongs: wholly, in place of what there is, or not at all."""

import shutil
from pathlib import Path

from autograder.instructor.collecting.sorting import HandedIn


def put(one: HandedIn, place: Path, aside: Path) -> None:
    """Put a submission in its place.

    It is put together elsewhere first, so that what there was is there still where that fails.

    Args:
        one: the submission, whose files are moved.
        place: its folder.
        aside: a folder that is not there yet, on the same disk.

    Raises:
        OSError: it cannot be put there.
    """
    new, earlier = aside / "new", aside / "earlier"
    for name, path in one.files.items():
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, new / name)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(earlier)
    try:
        new.rename(place)
    except BaseException:
        if earlier.exists():
            earlier.rename(place)
        raise
