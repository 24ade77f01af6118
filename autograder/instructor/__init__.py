"""The instructor's half: grading, the gradebook and pages.

`docs/architecture.md` says what is in each package and which may import which. A student's kernel
imports none of it.
"""

import sys

# jsonschema, which nbformat imports, makes 38 parsers as it is imported, for a format of addresses
# that no notebook has. Every command would take a second longer to start; without, it does not ask.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
