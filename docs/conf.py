"""Configuration of the documentation site, which `make site` builds with Sphinx, MyST and Furo."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import flota

project = "flota"
release = flota.__version__
extensions = ["myst_parser"]
myst_heading_anchors = 4
smartquotes = False  # they turn -- into a dash
highlight_language = "none"  # a fence without a language holds output
pygments_dark_style = "github-dark"

html_theme = "furo"
html_title = f"flota {release}"
html_logo = html_favicon = "_static/flota.svg"
html_static_path = ["_static"]
html_css_files = ["flota.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e8f", "color-brand-content": "#0b6e8f"},
    "dark_css_variables": {"color-brand-primary": "#4cc3e6", "color-brand-content": "#4cc3e6"},
}

DOCS = Path(__file__).resolve().parent
# Files of the repository that the site has as pages.
PAGES = {"CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog"}


def resolve_repository_links(app: Sphinx, page: nodes.document) -> None:
    """Resolve links that work on a code host but not in Sphinx: to directories, and to files outside of `docs/`.

    Such a link leads to the page if the site has one. Otherwise the site shows the path in the repository.
    """
    for link in [*page.findall(addnodes.pending_xref), *page.findall(addnodes.download_reference)]:
        path, anchor = target_of(link, Path(app.env.doc2path(app.env.docname)).parent)
        if not path.exists() or (path.is_file() and path.is_relative_to(DOCS)):
            continue
        name = path.relative_to(DOCS.parent).as_posix()
        docname = PAGES.get(name)
        if (path / "index.md").exists():
            docname = (path / "index").relative_to(DOCS).as_posix()
        if docname:
            link.attributes |= {"refdomain": "doc", "reftarget": docname, "reftargetid": anchor}
        else:
            shown = [] if name in link.astext() else [nodes.Text(" ("), nodes.literal(name, name), nodes.Text(")")]
            link.replace_self([*link.children, *shown])


def target_of(link: nodes.Element, folder: Path) -> tuple[Path, str | None]:
    """Return the file that a link in this folder names, and the anchor in that file."""
    if link["refdomain"] == "doc":  # MyST has removed the suffix
        return (DOCS / f"{link['reftarget']}.md").resolve(), link["reftargetid"]
    name, _, anchor = link["reftarget"].partition("#")
    return (folder / name).resolve(), anchor or None


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", resolve_repository_links, priority=400)  # before Sphinx collects downloads
