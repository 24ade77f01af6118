"""The course's website: Sphinx's configuration and extensions, and the pages that only it has.

`python -m website` builds it, as does `make site`; `tests/test_site.py` tests the result.
"""
