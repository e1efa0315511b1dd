"""What the site of the documentation does beside MkDocs: the order of its pages, and its links.

Pages are written to be read in a checkout as well, so that links are those between files. A link
to a file outside of `docs/` leads on the site to a page that shows this file. Folders come in the
order of `FOLDERS`, the pages of a folder in the order in which the start page names them; a page
that it does not name comes after these, so that no page has to be entered anywhere to be found.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FOLDERS = {
    "tutorial": "Tutorials",
    "how-to": "How to",
    "explanation": "Explanation",
    "reproduction": "Reproduction",
    "reference": "Reference",
    "errors": "Errors",
    "decisions": "Decisions",
}
LINK = re.compile(r"\]\((?!\w+:|#|/)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
LANGUAGES = {".service": "ini", ".yml": "yaml", ".py": "python", ".sh": "bash"}
START, OUTSIDE = "README.md", "repository"

# Where the text of a page of the site stands in the repository, if not under docs/.
_origins: dict[str, str] = {}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files that pages link to, and put all pages in order."""
    root = Path(config.config_file_path).parent
    _origins.clear()
    waiting = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for path in outside_links(root, page):
            uri = site_uri(path)
            if uri not in _origins:
                _origins[uri] = path
                files.append(File.generated(config, uri, content=shown(root / path)))
                waiting.append(path)
    config.nav = navigation([file.src_uri for file in files.documentation_pages()], root)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    here = page.file.src_uri
    origin = _origins.get(here, f"docs/{here}")

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link[1]))
        to = posixpath.relpath(site_uri(target), posixpath.dirname(here))
        return f"]({to}{link[2] or ''})"

    text, last = "", 0
    for fence in FENCE.finditer(markdown):
        text += LINK.sub(replaced, markdown[last : fence.start()]) + fence[0]
        last = fence.end()
    return text + LINK.sub(replaced, markdown[last:])


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Name the dialog of the search, which the theme leaves without a name for screen readers."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def outside_links(root: Path, page: str) -> list[str]:
    """Return the files outside of the pages that a page links to, as paths from the root."""
    if not page.endswith(".md"):
        return []
    text = FENCE.sub("", (root / page).read_text(encoding="utf-8"))
    targets = [
        posixpath.normpath(posixpath.join(posixpath.dirname(page), link[1]))
        for link in LINK.finditer(text)
    ]
    return [path for path in targets if _is_outside(path) and (root / path).is_file()]


def site_uri(path: str) -> str:
    """Return where the site has a file of the repository, as a path under docs/."""
    if not _is_outside(path):
        return path.removeprefix("docs/")
    return f"{OUTSIDE}/{path}" if path.endswith(".md") else f"{OUTSIDE}/{path}.md"


def _is_outside(path: str) -> bool:
    return not path.startswith("docs/")


def shown(path: Path) -> str:
    """Return a file as a page: text as it is, anything else as code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    language = LANGUAGES.get(path.suffix, path.suffix.removeprefix("."))
    return f"# {path.name}\n\n````{language}\n{text.rstrip()}\n````\n"


def navigation(pages: list[str], root: Path) -> list[Any]:
    """Return the pages of the site in order: the start page, then folder by folder."""
    start = (root / "docs" / START).read_text(encoding="utf-8")
    named = {link[1]: i for i, link in reversed([*enumerate(LINK.finditer(start))])}

    def place(path: str) -> tuple[bool, int, str]:
        return Path(path).name != START, named.get(path, len(named)), path

    listed = [page for page in pages if not page.startswith((f"{OUTSIDE}/", "errors/H"))]
    folders: dict[str, list[str]] = {}
    for page in sorted(listed, key=place):
        folders.setdefault(posixpath.dirname(page), []).append(page)

    def section(folder: str) -> list[Any]:
        inner = [
            name
            for name in folders
            if posixpath.dirname(name) == folder and name and name != folder
        ]
        below = [{title(name): section(name)} for name in sorted(inner, key=_folder_place)]
        return [*folders[folder], *below]

    def title(folder: str) -> str:
        name = posixpath.basename(folder)
        readme = root / "docs" / folder / START
        if folder not in FOLDERS and readme.exists():
            return readme.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        return FOLDERS.get(folder, name.replace("-", " ").capitalize())

    return [{"Hedgerow": START}, *section("")[1:]]


def _folder_place(folder: str) -> tuple[int, str]:
    known = list(FOLDERS)
    return known.index(folder) if folder in FOLDERS else len(known), folder
