"""Each figure of a report is a sum over the program's collectives, for every solved notebook."""

import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from typing import NamedTuple

import nbformat
import pytest

import autograder
import shardlings
from autograder.exercises import NOTEBOOKS
from shardlings.programs import MACHINES, Report, communication_seconds, wire_bytes
from shardlings.programs.collective_pictures import axes_in_words
from tests.conftest import ROOT, some_of

pytestmark = pytest.mark.timeout(600)

UNITS = {
    "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "µs": 1e-6, "ms": 1e-3, "s": 1,
}  # fmt: skip

COLUMNS = {
    "bytes": lambda c, machine: c.bytes,
    "sent": lambda c, machine: wire_bytes(c),
    "on": lambda c, machine: communication_seconds(c, machine) / (c.times or 1),
}
"""What each column of figures adds up, for one run of a collective."""


class Figure(NamedTuple):
    """A figure as it is written: the amounts that are rounded to it."""

    low: float
    high: float

    def __contains__(self, amount):
        return self.low <= amount * (1 + 1e-9) and amount * (1 - 1e-9) <= self.high


def figure(text, unit):
    """Read a figure such as `1,024`, `16.8` or `< 0.001`."""
    number = float(text.removeprefix("<").replace(",", ""))
    if text.startswith("<"):
        return Figure(0, number * unit)
    is_rounded_to = 1 if number >= 100 or unit == 1 else 0.1 if number >= 10 else 0.01
    # a ring of eight sends 1.75 bytes of one, which is written as 2; larger buffers send whole ones
    is_exact = unit == 1 and number == int(number) >= 10
    half = 0 if is_exact else is_rounded_to / 2
    return Figure((number - half) * unit, (number + half) * unit)


def table(report):
    """Read a report's table: for each row its kind, axes, runs and figures, each and in all."""
    page = ET.fromstring(report._repr_html_())
    found = page.find(".//table")
    if found is None:
        return [], {}
    headings = ["".join(cell.itertext()) for cell in found.iter("th")]
    first = 3 if headings[1] == "type" else 2  # not all is float32
    rows, total = [], {}
    for line in found.findall("tbody/tr"):
        cells = line.findall("td")
        if len(cells) == 1:
            continue  # a line of code
        texts = ["".join(cell.itertext()).split() for cell in cells]
        kind = next(word for word in texts[0] if word[0].isalpha())  # its numbers are before it
        over, runs, figures = " ".join(texts[first - 1]), "", {}
        for heading, cell in zip(headings[first:], cells[first:], strict=True):
            shown, *rest = [text.strip() for text in cell.itertext() if text.strip()] or [""]
            if heading == "times":
                runs = shown
                continue
            unit = UNITS[heading.rpartition(" ")[2]] if ", in " in heading else 1
            each = next((r for r in map(re.compile(r"\((.*) each\)").fullmatch, rest) if r), None)
            figures[heading.split()[0].rstrip(",")] = (
                figure(shown, unit),
                figure(each[1], unit) if each else None,
            )
        if kind == "all":
            total = figures
        else:
            rows.append((kind, over, runs, figures))
    return rows, total


def disagreements(report):
    """Yield what a report's table says that the program's collectives do not add up to."""
    rows, total = table(report)
    machine = MACHINES[report.machine]
    collectives = defaultdict(list)
    for c in report.collectives:
        collectives[c.kind, axes_in_words(c)].append(c)
    if {row[:2] for row in rows} != set(collectives):
        yield "kinds", rows
    for name, amount in COLUMNS.items():
        if not rows or name not in rows[0][-1]:
            continue

        def add_up(some, amount=amount):
            return sum((c.times or 1) * amount(c, machine) for c in some)

        for pair, alike in collectives.items():
            shown = [figures[name][0] for *own, _, figures in rows if tuple(own) == pair]
            together = Figure(sum(f.low for f in shown), sum(f.high for f in shown))
            if add_up(alike) not in together:
                yield name, pair, shown, add_up(alike)
        for *pair, runs, figures in rows:
            of_all, of_each = figures[name]
            if of_each is not None and not any(
                amount(c, machine) in of_each
                and amount(c, machine) * int(re.sub(r"\D", "", runs)) in of_all
                for c in collectives[tuple(pair)]
            ):
                yield name, pair, runs, of_all, of_each
        if total and add_up(report.collectives) not in total[name][0]:
            yield name, "all together", total[name], add_up(report.collectives)


@pytest.mark.parametrize("notebook", some_of(list(NOTEBOOKS)))
def test_every_figure_is_a_sum_over_the_collectives(notebook, monkeypatch):
    reports: list[Report] = []
    communication = shardlings.communication

    def keep(*args, **options):
        report = communication(*args, **options)
        reports.append(report)
        return report

    monkeypatch.setattr(shardlings, "communication", keep)
    monkeypatch.setattr(autograder, "check", lambda *_, **__: None)
    names = {"__name__": "__main__"}
    for cell in nbformat.read(ROOT / "solutions" / notebook / f"{notebook}.ipynb", 4).cells:
        if cell.cell_type == "code" and "%pip" not in cell.source:
            exec(compile(cell.source, f"<{cell.id}>", "exec"), names)
    assert [fault for report in reports for fault in disagreements(report)] == []


def test_a_wrong_figure_is_found(monkeypatch):
    import jax
    import numpy as np

    from shardlings.programs.report import ReportRow
    from tests.helpers import sharding

    x = jax.device_put(np.ones((16, 16), np.float32), sharding("x", x=8))
    report = shardlings.communication(lambda x: x + x.T, x)
    assert list(disagreements(report)) == []
    monkeypatch.setattr(ReportRow, "write", lambda row, unit, amount: unit.write(amount + 1))
    assert list(disagreements(report))
