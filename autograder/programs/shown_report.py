"""The shown form of a report, as plain data: a table, pictures and sums."""

from dataclasses import dataclass

from autograder.pictures import CollectivePicture


@dataclass(frozen=True)
class Row:
    """A line of the table: one collective, or several that are alike.

    Attributes:
        place: the file and the line of code that caused it, or a cell's line.
        source: that line, whole.
        kind: the kind of collective.
        over: the mesh axes that it runs over, or its groups.
        runs: how often it runs; None where a loop's count is unknown.
        sometimes: whether it runs that often at most.
        bytes: of the whole buffer on each device, in one run.
        sent: the bytes that each device sends in one run.
        seconds: what all runs take on the report's machine.
    """

    place: str
    source: str
    kind: str
    over: str
    runs: int | None
    sometimes: bool
    bytes: int
    sent: int
    seconds: float

    @property
    def times(self) -> str:
        """How often it runs, in a table: nothing for once."""
        if self.runs is None:
            return "× ?"
        if self.sometimes:
            return f"× {self.runs} at most"
        return f"× {self.runs:,}" if self.runs != 1 else ""


@dataclass(frozen=True)
class Shown:
    """All that is shown of a report.

    Attributes:
        rows: the table.
        bytes: of all buffers on each device, in all runs.
        sent: the bytes that each device sends in all runs.
        summary: the report in a line.
        machine: the machine that times are reckoned for.
        computing: the seconds that computing takes there; infinite where nobody knows.
        communicating: the seconds that sending takes there.
        scaled: which sizes took the place of which, in words, if any did.
        pictures: one for each kind of exchange.
    """

    rows: list[Row]
    bytes: int
    sent: int
    summary: str
    machine: str
    computing: float
    communicating: float
    scaled: str
    pictures: list[CollectivePicture]
