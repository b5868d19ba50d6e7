"""Check the links of the built site: every file and anchor exists, and no page needs a network."""

from __future__ import annotations

from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}
UNLOADED = {"canonical", "search", "next", "prev", "index", "author"}  # kinds of link that load nothing


class Page(HTMLParser):
    """The anchors and links of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, bool]] = []  # target, and whether it is loaded with the page
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag defines and what it refers to."""
        given = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}
        for key in ("href", "src"):
            target = given.get(key)
            if target is not None:
                loads = (tag, key) in LOADED and given.get("rel") not in UNLOADED
                self.links.append((target, loads))


class Site:
    """A folder of HTML pages.

    Parameters
    ----------
    folder : Path
        The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.checked = 0

    @cached_property
    def pages(self) -> dict[Path, Page]:
        """The pages, by path."""
        found = sorted(path for path in self.folder.rglob("*.html") if "_static" not in path.parts)
        return {path: Page(path.read_text(encoding="utf-8")) for path in found}

    def broken(self) -> list[str]:
        """Return a line for every link that leads nowhere, or loads something from elsewhere."""
        return [
            f"{path.relative_to(self.folder)}: {target}: {wrong}"
            for path, page in self.pages.items()
            for target, loads in page.links
            if (wrong := self._wrong(path, target, loads=loads))
        ]

    def _wrong(self, path: Path, target: str, *, loads: bool) -> str:
        parts = urlsplit(target)
        if parts.scheme in ("http", "https") or parts.netloc:
            return "is loaded from a network" if loads else ""
        if parts.scheme in ("mailto", "data", "javascript"):
            return ""
        self.checked += 1
        file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not file.is_file():
            return "no such file"
        anchor = unquote(parts.fragment)
        if anchor and file in self.pages and anchor not in self.pages[file].anchors:
            return "no such anchor"
        return ""
