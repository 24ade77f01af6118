"""The instructor's half: all that touches nbgrader, in rooms of its own.

`walls` and `course` stand on the ground; `calibration` is above them, then `plugins`, `authoring`
and `classroom`. A student's kernel imports none of it.
"""

import sys

# jsonschema, which nbformat imports, makes 38 parsers as it is imported, for a format of addresses
# that no notebook has. Every command would take a second longer to start; without, it does not ask.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
