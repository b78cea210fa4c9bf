"""Sphinx configuration: executed notebooks, numpydoc, warnings as errors (see .ci/slow)."""

import xjudge

project = "xjudge"
author = "The xjudge developers"
copyright = "The xjudge developers"
version = release = xjudge.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]
nitpicky = False

html_theme = "pydata_sphinx_theme"
html_title = "xjudge"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
}

# Notebooks are text and run anew at every build; a cell that fails, or writes to stderr, fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 120
nb_output_stderr = "error"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
# Signatures without types: the Parameters section says them in words, and overloads stay one signature.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
