"""The instructor's part of the package: grading, the gradebook and pages.

`docs/architecture.md` describes each package, and which may import which. Students' kernels import
nothing from here.
"""

import sys

# nbformat imports jsonschema, which at import builds 38 parsers if `rfc3987_syntax` is installed,
# to check a format of addresses that no notebook has. Hiding that module makes each command start
# a second earlier.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
