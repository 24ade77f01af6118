"""The gradebook's times: nbgrader stores them in UTC and without a time zone."""

from datetime import UTC, datetime


def as_utc(naive: datetime) -> datetime:
    """Add the time zone to a time of the gradebook."""
    return naive.replace(tzinfo=UTC)


def as_naive_utc(when: datetime) -> datetime:
    """Convert a time with a time zone to one for the gradebook."""
    return when.astimezone(UTC).replace(tzinfo=None)
