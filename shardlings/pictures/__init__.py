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
    values_for_terminal,
)
from shardlings.pictures.block_pictures import Edge, Picture, Place
from shardlings.pictures.charts import (
    Limits,
    Roofline,
    RooflinePoint,
    TradePoint,
    attempts_as_html,
    class_tradeoff_as_html,
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
from shardlings.pictures.timelines import (
    COMPUTING,
    Stretch,
    Timeline,
    list_numbers,
    timeline_as_html,
    timeline_as_text,
)

__all__ = [
    "COMPUTING",
    "CollectivePicture",
    "DrawnMesh",
    "Edge",
    "GanttChart",
    "JobBar",
    "Limits",
    "Picture",
    "Place",
    "Roofline",
    "RooflinePoint",
    "Stretch",
    "Timeline",
    "TradePoint",
    "attempts_as_html",
    "blocks_as_figure",
    "blocks_as_html",
    "blocks_as_text",
    "blocks_for_terminal",
    "bytes_per_step",
    "class_tradeoff_as_html",
    "collective_as_html",
    "collective_as_text",
    "display",
    "display_blocks",
    "display_values",
    "display_waiting",
    "figure_as_html",
    "gantt_as_html",
    "gantt_as_text",
    "list_numbers",
    "pictures_as_text",
    "show_figures_in_page_colours",
    "timeline_as_html",
    "timeline_as_text",
    "values_as_html",
    "values_as_text",
    "values_for_terminal",
]
