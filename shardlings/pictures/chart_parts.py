"""The parts that charts share: colours, an empty chart, its legend, and markers with names."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from shardlings.pictures.figures import find_figure_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

CHART_COLOUR: Final = "#b54a00"
FAINT_COLOUR: Final = (0, 0, 0, 0.68)
"""The colour of the page's text, paler; its contrast is above 4.5 in both themes."""

SMALL_TYPE: Final[dict[str, Any]] = {"fontsize": 8, "color": FAINT_COLOUR}

CHART_WIDTH: Final = 4.1
"""The width of a chart in inches: if a page is narrow, its text must not shrink much."""

LABEL_SIZE: Final = (24, 11)
"""The width and height, in points, that the name of a marker needs."""


def add_chart_legend(figure: "MatplotlibFigure") -> None:
    """Add a legend below a chart."""
    figure.legend(loc="outside lower left", fontsize=8, frameon=False, handlelength=1.4)


def mark_chart_places(
    axes: Any,
    places: Sequence[tuple[str, float, float]],
    label: str,
    latest: str = "",
    left_until: float | None = None,
    crossed: Collection[int] = (),
) -> None:
    """Mark places, with their names beside them; names that would overlap are listed together.

    Args:
        axes: matplotlib's axes, whose limits are set.
        places: a name, x and y of each, in units of the axes; without a name, there is only a
            marker.
        label: the text in the legend.
        latest: the same for the last place, if it is filled and the others hollow; empty if all
            are filled.
        left_until: names of places up to here are to the left of the markers, others above them;
            None: all are to the right.
        crossed: the positions in `places` of those over a budget, which are marked by crosses.
    """
    groups: list[tuple[Any, list[str]]] = []
    labelled = set()
    for number, (name, x, y) in enumerate(places):
        is_latest = bool(latest) and number == len(places) - 1
        marker, over = ("X", ": over a budget") if number in crossed else ("o", "")
        size = 8 if is_latest else 6  # the latest covers an earlier one in the same place
        text = (latest if is_latest else label) + over
        axes.plot([x], [y], marker, color=CHART_COLOUR, markersize=size, clip_on=False,
                  fillstyle="none" if latest and not is_latest else "full",
                  label="" if text in labelled else text)  # fmt: skip
        labelled.add(text)
        point = axes.transData.transform((x, y))
        near = (names for place, names in groups if max(abs(point - place) / LABEL_SIZE) < 1)
        if (names := next(near, None)) is not None:
            names.append(name)
        else:
            groups.append((point, [name]))
    for point, names in groups:
        names = list(filter(None, names))
        x, y = axes.transData.inverted().transform(point)
        if left_until is None:
            align, offset = "left", (5, 3)
        else:
            align, offset = ("right", (-5, 3)) if x < left_until else ("center", (0, 6))
        joined = ", ".join(names) if len(names) < 4 else f"{names[0]}, …, {names[-1]}"
        axes.annotate(
            joined,
            (x, y),
            xytext=offset,
            textcoords="offset points",
            ha=align,
            fontsize=9,
            fontweight="bold",
        )


def start_chart(width: float, height: float) -> tuple["MatplotlibFigure", Any]:
    """Return a figure of a size in inches, and its axes."""
    figure = find_figure_class()(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    return figure, axes
