"""Demonstrations: a released notebook's own cells, which grading runs only if an answer needs them.

Everybody has the same cells that demonstrate something, and in some notebooks a kernel spends most
of its time there. A cell is left out if no cell that runs reads a name that it binds, and if it has
no other effect that lasts. Both are decided from the text alone, and in doubt the cell runs. Only
released text is parsed here; the process that reads a student's notebook says which names it reads.
"""

import ast
import symtable
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from IPython.core.inputtransformer2 import TransformerManager

from autograder.instructor.course import WORD, list_read_names


class Demonstration(NamedTuple):
    """A released notebook's own cell.

    Attributes:
        reads: the names that it reads from the notebook.
        binds: the names that it binds there; None if it always runs.
    """

    reads: frozenset[str]
    binds: frozenset[str] | None


Demonstrations = Mapping[str, Demonstration]
"""A released notebook's own cells, by their source."""

ReadNames = Mapping[str, frozenset[str] | None]
"""The names that each cell reads, by its source; None if it may read any."""

WITHOUT_EFFECTS: Final = frozenset(
    {"autograder", "collections", "contextlib", "dataclasses", "flax", "functools", "itertools"}
    | {"jax", "json", "math", "matplotlib", "numpy", "operator", "optax", "re", "rich"}
    | {"shardlings", "struct", "textwrap", "time", "typing"}
)
"""Modules whose functions have no effect that lasts, but for those in `STATEFUL_FUNCTIONS` and
`STATEFUL_ATTRIBUTES`."""

STATEFUL_FUNCTIONS: Final = frozenset(
    {"delattr", "emulate_devices", "eval", "exec", "globals", "input", "next", "open", "setattr"}
)
"""Functions with an effect that lasts."""

STATEFUL_ATTRIBUTES: Final = frozenset(
    {"clear_caches", "config", "initialize", "rcParams", "seed", "start_trace", "tofile"}
)
"""Attributes of libraries, and methods, with an effect that lasts."""

WRITING: Final = ("dump", "save", "write")
"""The beginnings of names of functions and methods that write a file."""

MUTATING: Final = frozenset(
    {"add", "append", "choice", "clear", "discard", "extend", "fill", "insert", "integers"}
    | {"normal", "permutation", "pop", "popitem", "random", "remove", "reverse", "setdefault"}
    | {"shuffle", "sort", "standard_normal", "uniform", "update"}
)
"""Methods that change their object, those of NumPy's generators of random numbers included."""


def find_demonstrations(notebook: Any) -> Demonstrations:
    """Return a released notebook's own cells, with the names that each of them reads and binds.

    Args:
        notebook: the notebook as it was released.
    """
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    trees = [_parse(cell.source) for cell in code]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    libraries = frozenset(name for node in nodes for name in _imported(node, WITHOUT_EFFECTS))
    imported = frozenset(name for node in nodes for name in _imported(node))
    known = _Known(libraries, imported - libraries | {MAGIC})
    while found := {*_find_functions(nodes, known)} - known.effects:
        known = _Known(libraries, known.effects | found)
    return {
        cell.source: Demonstration(
            _read_names(cell.source, tree),
            None if _has_effect(tree, known) else _bound_names(cell.source),
        )
        for cell, tree in zip(code, trees, strict=True)
        if not cell.metadata.get("nbgrader")
    }


def find_unused(
    cells: Sequence[Any], demonstrations: Demonstrations, read: ReadNames
) -> frozenset[int]:
    """Return the indices of a submission's cells that grading can leave out.

    Args:
        cells: the cells of the submitted notebook.
        demonstrations: the released cells of this notebook.
        read: the names that each submitted cell reads. A cell that is not in it, because its text
            was restored, may read every word of its text.
    """
    unused, needed = dict[int, Demonstration](), set[str]()
    for index, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        known = None if cell.metadata.get("nbgrader") else demonstrations.get(cell.source)
        if known is not None and known.binds is not None:
            unused[index] = known
        elif known is not None:
            needed |= known.reads
        elif cell.source not in read:
            needed |= {*WORD.findall(cell.source)}
        elif (names := read[cell.source]) is None:
            return frozenset()
        else:
            needed |= names
    while used := {i: each for i, each in unused.items() if each.binds and each.binds & needed}:
        for index, demonstration in used.items():
            del unused[index]
            needed |= demonstration.reads
    return frozenset(unused)


MAGIC: Final = "get_ipython"
"""The function that IPython calls in place of a magic or of a shell's command."""


def _parse(source: str) -> ast.Module:
    """Parse a cell; one that is no Python, even without its magics, counts as a magic."""
    try:
        python: str = TransformerManager().transform_cell(source)
        return ast.parse(python)
    except SyntaxError:
        return ast.parse(f"{MAGIC}()")


def _read_names(source: str, tree: ast.AST) -> frozenset[str]:
    """Return the names that a cell reads; of one with a magic, all words of its text."""
    is_magic = any(isinstance(node, ast.Name) and node.id == MAGIC for node in ast.walk(tree))
    return frozenset(WORD.findall(source) if is_magic else list_read_names(source))


def _bound_names(source: str) -> frozenset[str]:
    """Return the names that a cell binds in the notebook."""
    symbols = symtable.symtable(source, "cell", "exec").get_symbols()
    return frozenset(s.get_name() for s in symbols if s.is_assigned() or s.is_imported())


def _imported(node: ast.AST, modules: Container[str] | None = None) -> Iterator[str]:
    """Yield the names that an import binds, of some modules or of all."""
    if isinstance(node, ast.ImportFrom | ast.Import):
        for alias in node.names:
            module = alias.name if isinstance(node, ast.Import) else node.module or ""
            if modules is None or module.partition(".")[0] in modules:
                yield alias.asname or alias.name.partition(".")[0]


class _Known(NamedTuple):
    """The names of libraries in a notebook, and those of functions with effects."""

    libraries: frozenset[str]
    effects: frozenset[str]


def _find_functions(nodes: Iterable[ast.AST], known: _Known) -> Iterator[str]:
    """Yield the functions and classes among some nodes that have an effect when they are called."""
    for node in nodes:
        if (isinstance(node, ast.FunctionDef) and _has_effect(node, known)) or (
            isinstance(node, ast.ClassDef) and {*_find_functions(node.body, known)}
        ):
            yield node.name


def _has_effect(tree: ast.AST, known: _Known, outer: frozenset[str] = frozenset()) -> bool:
    """Check whether a cell, or a call of a function, may change more than the names that it binds.

    Args:
        tree: the cell or the function.
        known: names of libraries, and of functions with effects.
        outer: names of new objects of the surrounding functions.
    """
    inside, is_cell = [*_nodes_inside(tree)], isinstance(tree, ast.Module)
    own = outer | {*_new_objects(inside, known.libraries)}
    entered = [node.context_expr for node in inside if isinstance(node, ast.withitem)]
    for node in inside:
        if isinstance(node, ast.Lambda) or (isinstance(node, ast.FunctionDef) and not is_cell):
            if _has_effect(node, known, frozenset() if is_cell else own):
                return True
        elif _is_effect(node, known, own) or (_sets_mesh(node) and node not in entered):
            return True
    return False


def _nodes_inside(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a cell or a function, but not those that run when a function is called."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if isinstance(child, ast.FunctionDef):
            defaults = filter(None, (*child.args.defaults, *child.args.kw_defaults))
            for each in (*child.decorator_list, *defaults):
                yield each
                yield from _nodes_inside(each)
        elif not isinstance(child, ast.Lambda):
            yield from _nodes_inside(child)


def _new_objects(inside: Sequence[ast.AST], libraries: frozenset[str]) -> Iterator[str]:
    """Yield the names of objects that a cell or a function makes, so that nothing else has them.

    A method's own object counts as one, because the method's class is called wherever it is made.
    """
    for node in inside:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = zip(targets, values, strict=False)
                yield from (_root(name) for name, value in pairs if _is_new(value, libraries))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_new(value, libraries):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg="self" as name):
                yield name


NEW: Final = (
    ast.BinOp, ast.Compare, ast.Constant, ast.Dict, ast.DictComp, ast.JoinedStr, ast.List,
    ast.ListComp, ast.Set, ast.SetComp, ast.UnaryOp,
)  # fmt: skip
"""Expressions that make an object."""


def _is_new(value: ast.expr, libraries: frozenset[str]) -> bool:
    """Check whether an expression makes an object: a list, for example, or NumPy's array."""
    if isinstance(value, ast.Call):
        is_copied = isinstance(value.func, ast.Attribute) and value.func.attr == "copy"
        return is_copied or _root(value.func) in {*libraries, "dict", "float", "int", "list", "set"}
    return isinstance(value, NEW)


def _is_effect(node: ast.AST, known: _Known, own: frozenset[str]) -> bool:
    """Check whether a part of a cell or function changes more than its `own` names."""
    match node:
        case ast.Delete() | ast.Global() | ast.Nonlocal() | ast.NamedExpr() | ast.alias(name="*"):
            return True
        case ast.AsyncFunctionDef() | ast.Await():
            return True
        case ast.Import(names=names):
            return not all(_is_known(alias.name) for alias in names)
        case ast.ImportFrom(module=module):
            return not _is_known(module or "")
        case ast.Name(id=name, ctx=ast.Load()):
            return name in STATEFUL_FUNCTIONS or name in known.effects
        case ast.Attribute(attr=name, ctx=ast.Load()) if (
            name in STATEFUL_ATTRIBUTES or name.startswith(WRITING)
        ):
            return True
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            return _root(node) not in own
        case ast.AugAssign(target=ast.Name(id=name)):
            return name not in own
        case ast.Call(func=ast.Attribute(attr=name) as method) if name in MUTATING:
            return _root(method) not in own | known.libraries  # as jnp.append
    return False


def _is_known(module: str) -> bool:
    """Check whether importing a module has no effect that lasts."""
    return module.partition(".")[0] in WITHOUT_EFFECTS | sys.stdlib_module_names


def _root(node: ast.AST) -> str:
    """Return the name that an expression such as `a.b[0].c` begins with; empty if with another."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _sets_mesh(node: ast.AST) -> bool:
    """Check for a call that makes a mesh the current one, which lasts unless `with` ends it."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("set_mesh", "use_mesh")
    )
