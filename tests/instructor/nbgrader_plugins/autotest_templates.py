"""Templates of tests, which nbgrader reads from `autotests.yml`."""

TEMPLATES = """
python3:
    setup: "import hashlib"
    hash: 'hashlib.sha1({{snippet}}.encode() + b"{{salt}}").hexdigest()'
    dispatch: "type({{snippet}})"
    normalize: "repr({{snippet}})"
    check: 'assert {{snippet}} == "{{value}}", "{{message}}"'
    templates:
        default:
            - test: "{{snippet}}"
              fail: "{{snippet}} is wrong"
"""
