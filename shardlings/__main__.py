"""The command `shardlings`: report on a function or a dumped program, and compare two reports.

    shardlings report train.py:step            a table, by source line
    shardlings report train.py:step --by-part  a table, by part of the model
    shardlings report train.py:step --json     the numbers, to be stored
    shardlings read dump/                      the same of a program that XLA has dumped
    shardlings compare before.json after.json  what is new, gone, larger or smaller

A function's arguments come from another one beside it, with `_arguments` after its name:
`step_arguments()` returns a tuple of arrays, or of `jax.ShapeDtypeStruct`s with shardings.
"""

import argparse
import html
import importlib.util
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shardlings.errors import ShortError, first_line

if TYPE_CHECKING:
    from shardlings.programs import Report, StoredReport, TargetReports

GROWN, WRONG = 1, 2
"""The exit statuses if a number has grown, and if the command cannot do what it is asked."""

DEVICES: Final = 8

PAGE: Final = (
    '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title></head>\n'
    '<body style="font-family: system-ui, sans-serif; margin: 1.5rem">\n{body}\n</body>\n</html>\n'
)

SCRIPT: Final = ' Put what it does as a script below `if __name__ == "__main__":`.'


class CommandError(ShortError):
    """The command cannot do what it is asked; the message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status.

    Args:
        arguments: the words after `shardlings`; by default those of this process.
    """
    given = _parser().parse_args(arguments)
    try:
        status: int = given.run(given)
        sys.stdout.flush()
    except ShortError as error:
        print(f"shardlings: {error}", file=sys.stderr)
        return WRONG
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shardlings", description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shown = argparse.ArgumentParser(add_help=False)
    shown.add_argument("--machine", help="the machine that times are for")
    either = shown.add_mutually_exclusive_group()  # a stored report has no parts
    either.add_argument("--by-part", action="store_true", help="add up the parts of the model")
    either.add_argument("--json", action="store_true", help="print the numbers as JSON")
    shown.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file")
    report = commands.add_parser("report", parents=[shown], help="report on a function")
    report.add_argument("function", metavar="FILE.py:FUNCTION")
    report.add_argument("--devices", type=int, default=DEVICES, help="emulated devices (8)")
    report.add_argument("--target", help="a TPU topology, such as v5e:2x4")
    report.set_defaults(run=_report)
    read = commands.add_parser(
        "read", parents=[shown], help="report on a program that XLA has dumped"
    )
    read.add_argument(
        "dump", type=Path, metavar="DUMP", help="a file, or a folder with one program"
    )
    read.add_argument("--mesh", type=_axes, help="the axes and their sizes: data=8,model=4")
    read.set_defaults(run=_read_dump)
    compare = commands.add_parser("compare", help="compare two stored reports")
    compare.add_argument("before", type=Path, metavar="BEFORE.json")
    compare.add_argument("now", type=Path, metavar="NOW.json")
    compare.add_argument(
        "--tolerance", type=_share, default=0.0, metavar="SHARE",
        help="the growth that is allowed, such as 0.02 for 2 per cent; 0 if it is not given",
    )  # fmt: skip
    compare.set_defaults(run=_compare)
    return parser


def _report(given: argparse.Namespace) -> int:
    from shardlings import communication, emulate_devices

    emulate_devices(given.devices)
    function, arguments = _load(given.function)
    options: dict[str, Any] = {"machine": given.machine, "target": given.target}
    chosen = {name: value for name, value in options.items() if value is not None}
    report = communication(function, *arguments, **chosen)
    _write(report, given, given.function)
    return 0


def _read_dump(given: argparse.Namespace) -> int:
    from shardlings import read_dump

    chosen = {} if given.machine is None else {"machine": given.machine}
    _write(read_dump(given.dump, mesh=given.mesh, **chosen), given, given.dump.name)
    return 0


def _axes(written: str) -> dict[str, int]:
    """Read `data=8,model=4`.

    Raises:
        ArgumentTypeError: it is written otherwise.
    """
    parts = [each.partition("=") for each in written.split(",")]
    if not all(name and size.isdecimal() and int(size) for name, _, size in parts):
        raise argparse.ArgumentTypeError(f"{written!r} is not written as data=8,model=4")
    axes = {name: int(size) for name, _, size in parts}
    if len(axes) < len(parts):
        raise argparse.ArgumentTypeError(f"{written!r} names an axis twice")
    return axes


def _share(written: str) -> float:
    """Read a share of growth, such as `0.02`.

    Raises:
        ArgumentTypeError: it is no number, is below 0, or has no end.
    """
    try:
        share = float(written)
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf:
        raise argparse.ArgumentTypeError(
            f"{written!r} is not a share that is 0 or more, such as 0.02 for 2 per cent"
        )
    return share


def _write(report: "Report | TargetReports", given: argparse.Namespace, title: str) -> None:
    """Print a report, or write it, as the options say."""
    from shardlings.documents import ShownAsDocument, as_html
    from shardlings.programs import StoredReport

    shown: ShownAsDocument = report.by_part() if given.by_part else report
    if given.html is not None:
        page = PAGE.format(title=html.escape(title), body=as_html(shown.document()))
        try:
            given.html.write_text(page, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{given.html} cannot be written: {error}.") from None
    if given.json:
        print(StoredReport.of(report).to_json(), end="")
    elif given.html is None:
        print(shown)


def _load(named: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a function of a file, and its arguments."""
    file, _, name = named.rpartition(":")
    path = Path(file)
    if file and not path.is_file():
        raise CommandError(f"There is no file {file}.")
    if not file or not name:
        raise CommandError(
            f"{named} is not a file and a function in it: write FILE.py:FUNCTION, as in "
            f"train.py:step."
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))  # so that it finds the modules beside it
    try:
        with _ending_refused(file, SCRIPT):
            spec.loader.exec_module(module)
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(f"{file} raised {type(error).__name__}: {first_line(error)}") from error
    function, make_arguments = (getattr(module, n, None) for n in (name, f"{name}_arguments"))
    if function is None:
        raise CommandError(f"{file} has no function {name}.")
    if make_arguments is None:
        raise CommandError(
            f"{file} has no function {name}_arguments. It has to return the tuple of arguments to "
            f"report on, such as sharded arrays or jax.ShapeDtypeStructs with shardings."
        )
    try:
        with _ending_refused(f"{name}_arguments()"):
            arguments = make_arguments()
    except CommandError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise CommandError(f"{name}_arguments() raised {kind}: {first_line(error)}") from error
    return function, tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,)


@contextmanager
def _ending_refused(what: str, advice: str = "") -> Iterator[None]:
    """Keep code from ending this command as if all was well.

    Raises:
        CommandError: it calls `sys.exit`, even with a status of 0.
    """
    try:
        yield
    except SystemExit as error:
        raise CommandError(
            f"{what} ended the program with sys.exit({error.code!r}), so there is nothing to "
            f"report on.{advice}"
        ) from error


def _compare(given: argparse.Namespace) -> int:
    from shardlings.programs import compare

    before, now = map(_read_stored, (given.before, given.now))
    comparison = compare(before, now)
    print(comparison)
    grown = comparison.find_growth(given.tolerance)
    for sentence in grown:
        print(sentence)
    return GROWN if grown else 0


def _read_stored(path: Path) -> "StoredReport":
    from shardlings.programs import StoredReport, StoredReportError

    try:
        return StoredReport.from_json(path.read_text(encoding="utf-8"))
    except StoredReportError as error:
        raise CommandError(f"{path}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}.") from None


if __name__ == "__main__":
    sys.exit(main())
