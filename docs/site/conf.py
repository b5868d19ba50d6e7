"""Configuration of Sphinx for the documentation site; `python docs/site` runs it on the staged pages."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from pygments.lexers.special import TextLexer

import evenrank

sys.path.insert(0, str(Path(__file__).parent))

project = "evenrank"
author = "The evenrank authors"
project_copyright = author
version = release = evenrank.__version__
language = "en"

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx_copybutton"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4  # links such as files.md#columns, as in the plain repository
highlight_language = "text"  # of blocks that do not name their language
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}

# notebooks run at every build; an error in a cell fails it
nb_execution_mode = "auto"
nb_execution_raise_on_error = True
nb_execution_timeout = 90
nb_merge_streams = True

autodoc_typehints = "none"  # the types that users need are in the docstrings
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the methods follow on the same page
numpydoc_use_plots = False
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
default_role = "code"
smartquotes = False  # --out is an option, not a dash

html_title = "evenrank"
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["offline.js"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_theme_options: dict[str, Any] = {
    "navigation_with_keys": False,
    "collapse_navigation": True,  # half the time of a build
    "show_prev_next": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "search": [], "genindex": []}


def _math(translator: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers draw without a script and without a network."""
    block = isinstance(node, nodes.math_block)
    tree = latex2mathml.tex2mathml(node.astext(), as_block=block)
    translator.body.append(f'<div class="formula">{tree}</div>' if block else str(tree))
    raise nodes.SkipNode


def _linked(app: Any, tree: Any, page: str) -> None:
    """Link names such as `er.rank` in texts to their pages of the reference."""
    known = app.env.get_domain("py").objects
    for literal in list(tree.findall(nodes.literal)):
        name = re.match(r"(?:er|evenrank)\.([\w.]+)", literal.astext())
        inside = isinstance(literal.parent, nodes.reference | nodes.title)
        path = name and f"evenrank.{name[1]}".rstrip(".")
        if path and path in known and not inside:
            target = app.builder.get_relative_uri(page, known[path].docname)
            link = nodes.reference("", "", internal=True, refuri=f"{target}#{known[path].node_id}")
            literal.replace_self(link)
            link += literal


def _signed(*given: Any) -> tuple[str | None, str | None]:
    """Write the defaults of a signature as users would."""
    text, result = given[-2:]  # after the application, the object and its options
    return text and text.replace("<factory>", "...").replace("range(0, 0)", "range(0)"), result


def _skipped(*given: Any) -> bool | None:
    """Leave out the fields of named tuples, which are documented as parameters."""
    thing = given[3]  # after the application, the kind and the name
    return True if str(getattr(thing, "__doc__", "")).startswith("Alias for field number") else None


def setup(app: Any) -> dict[str, bool]:
    """Register the formulas, links to the reference, and languages that Pygments does not know."""
    app.connect("doctree-resolved", _linked)
    app.connect("autodoc-process-signature", _signed)
    app.connect("autodoc-skip-member", _skipped)
    app.add_lexer("csv", TextLexer)
    app.add_html_math_renderer("mathml", (_math, None), (_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
