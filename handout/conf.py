"""Sphinx's settings for the handout; `make handout` runs Sphinx (handout/site/__main__.py)."""

import sys
from pathlib import Path

from pybtex.backends.plaintext import Backend
from pybtex.plugin import register_plugin

# For grader and handout.site, wherever Sphinx is started.
sys.path.insert(0, str(Path(__file__).parents[1]))

from grader import __version__

project = "PyTorch primitives and resource accounting"
version = release = __version__
html_title = project
copyright = ""
language = "en"

extensions = [
    "myst_parser",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "handout.site.sphinx_extension",
]
exclude_patterns = ["build", "site"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

bibtex_bibfiles = ["bibliography.bib"]
bibtex_reference_style = "author_year"
bibtex_default_style = "alpha"
# It is looked up for each citation, among all packages unless it is registered by force.
register_plugin("pybtex.backends", "plaintext", Backend, force=True)

copybutton_prompt_text, copybutton_prompt_is_regexp = r">>> |\.\.\. ", True

html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["site/static"]
html_css_files = ["math.css", "site.css"]
html_js_files = ["page.js", "calculators_data.js", "calculators.js", "quiz.js"]
html_copy_source = html_show_sourcelink = html_show_sphinx = html_show_copyright = False
# It would fetch the pages that it quotes, which a browser refuses for files.
html_show_search_summary = False
html_last_updated_fmt = None
html_use_index = False
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
