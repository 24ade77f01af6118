"""Draw blocks, meshes, collectives and charts, as HTML, text, figures and for a terminal.

In: rectangles, labels, groups and numbers, as plain data. Out: HTML for a notebook, text, rich
tables for a terminal, and matplotlib figures. This package does not import JAX, layouts or
exercises.
"""

from shardlings.pictures.block_drawings import (
    blocks_as_figure,
    blocks_as_html,
    blocks_as_text,
    blocks_for_terminal,
    pictures_as_text,
    values_as_html,
    values_as_text,
)
from shardlings.pictures.block_pictures import Edge, Picture, Place
from shardlings.pictures.chart_parts import (
    CHART_COLOUR,
    CHART_WIDTH,
    FAINT_COLOUR,
    SMALL_TYPE,
    add_chart_legend,
    mark_chart_places,
    start_chart,
)
from shardlings.pictures.collective_pictures import (
    CollectivePicture,
    DrawnMesh,
    bytes_per_step,
    collective_as_html,
    collective_as_text,
)
from shardlings.pictures.displaying import (
    display,
    display_blocks,
    display_table,
    display_values,
    display_waiting,
    show_figures_in_page_colours,
)
from shardlings.pictures.figures import figure_as_html
from shardlings.pictures.gantt_charts import (
    GanttChart,
    JobBar,
    gantt_as_html,
    gantt_as_text,
)
from shardlings.pictures.rooflines import Roofline, RooflinePoint
from shardlings.pictures.svg import AMBER, BLUE, GREY, ORANGE, PINK
from shardlings.pictures.timelines import (
    COMPUTING,
    Stretch,
    Timeline,
    list_numbers,
    timeline_as_html,
    timeline_as_text,
)

__all__ = [
    "AMBER",
    "BLUE",
    "CHART_COLOUR",
    "CHART_WIDTH",
    "COMPUTING",
    "FAINT_COLOUR",
    "GREY",
    "ORANGE",
    "PINK",
    "SMALL_TYPE",
    "CollectivePicture",
    "DrawnMesh",
    "Edge",
    "GanttChart",
    "JobBar",
    "Picture",
    "Place",
    "Roofline",
    "RooflinePoint",
    "Stretch",
    "Timeline",
    "add_chart_legend",
    "blocks_as_figure",
    "blocks_as_html",
    "blocks_as_text",
    "blocks_for_terminal",
    "bytes_per_step",
    "collective_as_html",
    "collective_as_text",
    "display",
    "display_blocks",
    "display_table",
    "display_values",
    "display_waiting",
    "figure_as_html",
    "gantt_as_html",
    "gantt_as_text",
    "list_numbers",
    "mark_chart_places",
    "pictures_as_text",
    "show_figures_in_page_colours",
    "start_chart",
    "timeline_as_html",
    "timeline_as_text",
    "values_as_html",
    "values_as_text",
]
