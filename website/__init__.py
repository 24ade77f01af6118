"""The course on the web: what Sphinx is told, beside the pages that only the site has.

`python -m website` builds, which is what `make site` calls; `tests/test_site.py` looks at what was
built.
"""
