"""Settings of the documentation; ``make docs`` builds it. Only the build imports Sphinx, never this file by itself."""

import html
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

project = "counterpoint"
author = "The counterpoint developers"
copyright = author  # noqa: A001, Sphinx's own name

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
nitpicky = True  # a reference that leads nowhere fails the build
nitpick_ignore_regex = [
    (r"py:.*", r"(matplotlib|numpy|onnx|pandas|scipy|sklearn|torch|torchvision|warnings)\..*")
]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
autodoc_typehints = "none"  # the docstrings have the types
numpydoc_show_class_members = False  # each page lists its members itself
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"better_ensemble",  # shown on the page on images; it needs a folder of them
    "doc_module": ("counterpoint",),
    "backreferences_dir": "gallery/backreferences",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "counterpoint"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["counterpoint.css"]
html_show_sourcelink = False
html_sidebars = {"**": ["contents.html"]}
html_theme_options = {
    "navbar_center": [],  # the contents are on the left, whole, on every page
    "navbar_persistent": [],
    "navbar_end": ["search-button-field", "theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_math_renderer = "mathml"
longest_open_table = 10  # rows; a longer one with a caption is folded behind it


def setup(app: Any) -> None:
    """Write the pages that have another source, and draw formulas as MathML, which needs no script and no network."""
    import api_pages

    api_pages.write_pages(DOCS / "api")
    write_project_pages()
    documented = api_pages.homes(api_pages.public_names())
    app.connect("missing-reference", lambda *event: refer_to_home(documented, *event))
    app.connect("doctree-read", fold_long_tables)
    app.connect("doctree-read", trim_code)
    app.add_html_math_renderer("mathml", (inline_math, None), (display_math, None))


def write_project_pages() -> None:
    """Copy the pages of the repository's root, with their links as seen from the folder ``project``."""
    folder = DOCS / "project"
    folder.mkdir(exist_ok=True)
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (DOCS.parent / name).read_text(encoding="utf-8")
        (folder / name.lower()).write_text(re.sub(r"\]\(docs/", "](../", text), encoding="utf-8")


def refer_to_home(documented: dict[str, str], app: Any, env: Any, node: Any, contents: Any) -> Any:
    """Resolve a public name that is documented under another one, or that stands without its package."""
    target = node.get("reftarget", "")
    found = {home for dotted, home in documented.items() if target in (dotted, dotted.rpartition(".")[2])}
    if len(found) != 1 or target in found or node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found.pop(), node, contents)


def fold_long_tables(app: Any, doctree: Any) -> None:
    """Put each long table behind its caption, the line in bold before it."""
    from docutils import nodes

    for table in list(doctree.findall(nodes.table)):
        place = first = table.parent.index(table)
        while first and isinstance(
            table.parent[first - 1], nodes.comment | nodes.raw
        ):  # the marks of generated parts
            first -= 1
        caption = table.parent[first - 1] if first else None
        bold = [one.astext() for one in caption.findall(nodes.strong)] if caption else []
        is_caption = isinstance(caption, nodes.paragraph) and bold == [caption.astext()]
        rows = next(iter(table.findall(nodes.tbody)))
        if is_caption and len(rows) > longest_open_table:
            summary = f"<summary>{html.escape(caption.astext())} ({len(rows)} rows)</summary>"
            opening = nodes.raw("", f'<details class="long-table">{summary}', format="html")
            table.parent[first - 1 : place + 1] = [opening, table, nodes.raw("", "</details>", format="html")]


def trim_code(app: Any, doctree: Any) -> None:
    """Remove the empty line that doctest needs at the end of a block."""
    from docutils import nodes

    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip()
        block.children = [nodes.Text(block.rawsource)]


def inline_math(writer: Any, node: Any) -> None:
    """Write a formula of a line."""
    from docutils.nodes import SkipNode
    from latex2mathml.converter import convert

    writer.body.append(convert(node.astext()))
    raise SkipNode


def display_math(writer: Any, node: Any) -> None:
    """Write a formula of its own line; a wide one scrolls."""
    from docutils.nodes import SkipNode
    from latex2mathml.converter import convert

    writer.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise SkipNode
