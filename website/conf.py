"""Sphinx's configuration for the course's website."""

import atexit
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for the extensions in this folder

import jax  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

from shardlings.devices import environment  # noqa: E402
from website.notebooks import ADDRESS, LAUNCHERS  # noqa: E402


def digest_code(*folders: str) -> str:
    """Return a hash of the code in folders, and of the versions of JAX and Python."""
    digest = hashlib.sha256(f"{jax.__version__} {platform.python_version()}".encode())
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        if "instructor" not in path.parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def setup(app: Sphinx) -> None:
    """Have Sphinx read all pages again if the code that makes them has changed."""
    app.add_config_value("made_by", digest_code("shardlings", "autograder", "website"), "env")


# The kernels that run the notebooks have eight devices, and neither the progress nor the settings
# of whoever builds the site. Warnings of XLA and of the kernel are not printed.
state = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, state, ignore_errors=True)
os.environ.update(
    environment(), SHARDLINGS_STATE=str(state), IPYTHONDIR=str(state), TF_CPP_MIN_LOG_LEVEL="2"
)
(state / "profile_default").mkdir()
(state / "profile_default" / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40")

project = "Shardlings"
author = "the authors of Shardlings"
copyright = "the authors of Shardlings, Apache-2.0"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.extlinks",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "website.diagrams",
    "website.formulas",
    "website.links",
    "website.playground",
]
exclude_patterns = ["README.md"]
extlinks = LAUNCHERS
default_role = "code"  # for single backticks in docstrings
highlight_language = "text"

# Notebooks run once, and their output is cached until the code that they use changes.
nb_custom_formats = {".ipynb": "website.notebooks.read"}
nb_execution_mode = "cache"
nb_execution_cache_path = str(
    ROOT / "build" / "site" / "runs" / digest_code("shardlings", "autograder")
)
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_code_prompt_show = "Show the set-up"
nb_code_prompt_hide = "Hide the set-up"
nb_merge_streams = True

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = "Shardlings"
html_static_path = ["_static"]
html_css_files = ["site.css", "cheat_sheet.css"]
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": "Shardlings"},
    "github_url": ADDRESS,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "use_edit_page_button": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
without_sidebar = (
    "index", "playground", "docs/cheat_sheet", "docs/what_moved", "docs/communication",
    "docs/choosing", "api",
)  # fmt: skip
html_sidebars: dict[str, list[str]] = {page: [] for page in without_sidebar}
