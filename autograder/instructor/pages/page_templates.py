"""Render the templates of this package, and the numbers and times in them."""

import functools
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from autograder.instructor.commands import printable
from shardlings.documents import template_environment


def render(template: str, **values: Any) -> Markup:
    """Render one of this package's templates.

    Args:
        template: the template's file.
        **values: its variables; those that are no `Markup` are escaped.
    """
    return Markup(_environment().get_template(template).render(values))


@functools.cache
def _environment() -> jinja2.Environment:
    environment = template_environment(Path(__file__).parent)
    environment.filters |= {"day": format_day, "line": printable, "points": format_points}
    return environment


def format_points(points: float) -> str:
    """Return points with at most two decimals, such as `2`, `1.33` or `12345.67`."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def format_day(time: datetime, zone: tzinfo) -> str:
    """Return a time in a time zone, such as `5 March 2026, 14:30 CET`."""
    local = time.astimezone(zone)
    return f"{local.day} {local:%B %Y, %H:%M %Z}"
