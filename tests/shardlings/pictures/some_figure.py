"""A figure with all that is drawn otherwise on a page."""

import pytest

pytest.importorskip("matplotlib", reason="figures are drawn where matplotlib is installed")
from matplotlib.figure import Figure


def some_figure() -> Figure:
    """Return a figure with lines, markers, a legend, a formula, and data outside its limits."""
    made = Figure(figsize=(4, 3))
    axes = made.subplots()
    axes.imshow([[1, 2]], extent=(1, 2, 1, 2), aspect="auto")
    axes.plot([1, 2, 9], [1, 5, 3], "o--", color="#d55e00", label="falls & rises")
    axes.axvspan(1, 2, color="black", alpha=0.2)
    axes.set(xscale="log", xlim=(1, 5), xlabel="$10^3$ steps", ylabel="a < b")
    axes.legend()
    return made
