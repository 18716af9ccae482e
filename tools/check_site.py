"""Open every page of the built site in Chromium and report what is wrong.

    python tools/check_site.py [FOLDER]

FOLDER is ``_build/html`` unless given. Each page is opened at 1280 and at 390
pixels, in the light and in the dark. Exit status: 0 without a fault, 1 with
one, 2 when nothing could be checked.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, product
from operator import attrgetter
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urljoin

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Request,
    Response,
    sync_playwright,
)

WIDTHS = (1280, 390)
THEMES = ("light", "dark")  # as the browser prefers, which the site follows
MODES = len(WIDTHS) * len(THEMES)
COMPRESSED = {
    ".css",
    ".html",
    ".js",
    ".json",
    ".svg",
    ".txt",
}  # by a web server
OUTSIDE = "Request to another host"
SHIFT = 0.02  # the most that a page may move while it is loaded, of its screen
# WCAG 2.2, A and AA, and what axe calls best practices; the rule named apart
# is WCAG's, too, and off in this version of axe.
AXE = {
    "runOnly": [
        *("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"),
        "best-practice",
    ],
    "rules": {"label-content-name-mismatch": {"enabled": True}},
    "resultTypes": ["violations"],
    "preload": False,  # else it asks for style sheets by itself
}
NO_CHROMIUM = (
    "No Chromium found. Install it (Debian, Ubuntu: apt-get install chromium;"
    " macOS: brew install --cask chromium) or set CHROMIUM to the path of one."
)

# Runs in a page; returns its faults, its links and its anchors.
LOOK = r"""async theme => {
  const faults = [];
  const note = (kind, text) => faults.push([kind, text]);
  const all = selector => [...document.querySelectorAll(selector)];
  const tag = element => element.cloneNode().outerHTML.replace(/<\/.*/, '');

  // Asked for first: what follows loads images that are far below.
  let shift = 0;
  new PerformanceObserver(list => list.getEntries().forEach(
    entry => { if (!entry.hadRecentInput) shift += entry.value; }
  )).observe({ type: 'layout-shift', buffered: true });
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));

  const shown = document.documentElement.dataset.theme ?? theme;
  if (shown !== theme) note('Wrong theme', shown);

  const { scrollWidth, clientWidth } = document.scrollingElement;
  if (scrollWidth > clientWidth) {
    const contained = e => e !== document.body && (
      getComputedStyle(e).position === 'fixed'
      || getComputedStyle(e.parentElement).overflowX !== 'visible'
      || contained(e.parentElement));
    const wide = all('body *').find(e =>
      e.getBoundingClientRect().right > clientWidth + 0.5 && !contained(e));
    note('Sideways scrolling', `${scrollWidth} px: ${wide ? tag(wide) : ''}`);
  }

  await Promise.all([...document.images].map(async image => {
    const alt = image.alt.trim();
    const shown = tag(image);
    const decoration = '[role=presentation], [role=none], [aria-hidden=true]';
    if (!alt && !image.closest(decoration))
      note('Image without alt text', shown);
    if (/\.(avif|gif|jpe?g|png|svg|webp)$|^(\S*\/)?[0-9a-f]{16,}$/i.test(alt))
      note('Alt text is a file name', alt);
    image.loading = 'eager';
    await image.decode().catch(() => note('Image not shown', shown));
  }));

  for (const e of all('[rel~=preconnect], [rel~=dns-prefetch]'))
    note('Request to another host', e.href);

  for (const e of all('.katex-error, mjx-merror, .math code'))
    note('Formula not rendered', e.textContent);
  const code = 'code, pre, kbd, samp, script, style, textarea, math, .katex';
  const block = 'p, li, dt, dd, td, th, div, section, summary, body';
  const texts = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (parent.closest(code)) continue;
    const key = parent.closest(block);
    texts.set(key, (texts.get(key) ?? '') + walker.currentNode.data);
  }
  const raw = /(\\[(\[]|\\begin\{|\$\$)[^]*|\$[^\s$]([^$]*[^\s$])?\$(?!\d)/;
  for (const text of texts.values())
    if (raw.test(text)) note('Formula not rendered', text.match(raw)[0]);

  return {
    faults,
    shift,
    links: [...document.links, ...all('link[href]')].map(e => e.href),
    anchors: all('[id], a[name]').flatMap(e => [e.id, e.name]),
  };
}"""


# Runs before axe, which needs a millisecond and more for each element: most are
# the boxes of formulas, hidden from screen readers and with the text's colour,
# and the words of code. Both keep their size and their text.
LIGHTEN = """() => {
  const formulas = [...document.querySelectorAll('.katex-html')];
  const sizes = formulas.map(formula => formula.getBoundingClientRect());
  formulas.forEach((formula, i) => {
    const { width, height } = sizes[i];
    formula.replaceChildren();
    formula.style = `display: inline-block; width: ${width}px; height: ${height}px`;
  });
  for (const word of document.querySelectorAll('pre span'))
    word.replaceWith(...word.childNodes);
  document.body.normalize();
}"""


class Handler(SimpleHTTPRequestHandler):
    """Serves files that the browser may not keep: each visit is a first."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # four tabs ask for many files at once

    def handle_error(self, *args: object) -> None:  # the browser hung up
        pass


@dataclass
class Visit:
    """What was seen of one page, opened at one width in one theme."""

    page: str
    mode: str
    faults: set[tuple[str, str]] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    shift: float = 0.0
    broken: bool = False


class Tab:
    """A tab of one width and theme that visits page after page."""

    def __init__(self, browser: Browser, base: str, width: int, theme: str):
        self.browser, self.base, self.host = browser, base, urljoin(base, "/")
        self.width, self.theme = width, theme
        self.open()

    def open(self) -> None:
        size = {"width": self.width, "height": 844}
        tab = self.browser.new_page(viewport=size, color_scheme=self.theme)
        tab.set_default_timeout(15_000)
        tab.on("console", self.on_console)
        tab.on("pageerror", lambda error: self.note("Script error", str(error)))
        tab.on("request", self.on_request)
        tab.on("requestfailed", self.on_failure)
        tab.on("response", self.on_response)
        tab.on("websocket", lambda socket: self.note(OUTSIDE, socket.url))
        self.tab = tab

    def note(self, kind: str, text: str) -> None:
        text = " ".join(text.replace(self.base, "").split())
        self.visit.faults.add((kind, text[:160]))

    def on_console(self, message: ConsoleMessage) -> None:
        # A failed request is noted as such; this line would be a second fault.
        fetching = message.text.startswith("Failed to load resource")
        if message.type in ("warning", "error") and not fetching:
            self.note("Console message", f"{message.type}: {message.text}")

    def on_request(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.visit.requests.append(request.url)
            if not request.url.startswith(self.host):
                self.note(OUTSIDE, request.url)

    def on_failure(self, request: Request) -> None:
        if request.url.startswith(self.host):
            self.note("Request failed", request.url)

    def on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.on_failure(response.request)

    def attempt(self, step: Callable[[Tab], None]) -> None:
        """Take a step of the visit, unless one before it has failed."""
        if self.visit.broken:
            return
        try:
            step(self)
        except Error as error:  # Playwright's own, time-outs among them
            self.note("Page never ready", error.message)
            self.visit.broken = True
            self.tab.close()  # a page that hangs would keep out the next one
            self.open()

    def start(self) -> None:
        self.tab.goto(self.base + self.visit.page, wait_until="commit")

    def look(self) -> None:
        self.tab.wait_for_load_state("load")  # the theme's scripts have run
        self.tab.wait_for_load_state("networkidle")
        seen = self.tab.evaluate(LOOK, self.theme)
        for kind, text in seen["faults"]:
            self.note(kind, text)
        self.visit.links, self.visit.anchors = seen["links"], seen["anchors"]
        self.visit.shift = seen["shift"]
        if self.visit.shift > SHIFT:
            self.note("Layout shift", f"{self.visit.shift:.3f}")
        self.tab.evaluate(LIGHTEN)
        found = Axe().run(self.tab, options=AXE)
        for rule in found.response["violations"]:
            for node in rule["nodes"]:
                where = " ".join(map(str, node["target"]))
                self.note("Accessibility", f"{rule['id']}: {where}")

    def leave(self) -> None:
        """Let nothing that the page stored, or says late, reach the next."""
        self.tab.evaluate("localStorage.clear()")
        self.tab.goto("about:blank")


def visit_all(chromium: str, base: str, pages: list[str]) -> list[Visit]:
    """Open each page in every mode, the modes of one page side by side."""
    # What asks for another host is sent to a port where nobody answers.
    proxy = {"server": "http://127.0.0.1:1", "bypass": "127.0.0.1"}
    visits = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, proxy=proxy
        )
        tabs = [Tab(browser, base, *mode) for mode in product(WIDTHS, THEMES)]
        for page in pages:
            for tab in tabs:
                tab.visit = Visit(page, f"{tab.width} px {tab.theme}")
                visits.append(tab.visit)
            for step in (Tab.start, Tab.look, Tab.leave):
                for tab in tabs:
                    tab.attempt(step)
        browser.close()
    return visits


def file_of(address: str, base: str) -> str:
    """Name the file that an address stands for, relative to the site's folder.

    Examples
    --------
    >>> file_of("http://host/html/book/a%20b.html?q=1", "http://host/html/")
    'book/a b.html'
    """
    path = unquote(address.split("?")[0].removeprefix(base))
    return path + "index.html" if path == "" or path.endswith("/") else path


def check_links(visits: list[Visit], base: str, files: set[str]) -> None:
    """Note each link into the site that finds no file or no anchor."""
    anchors = defaultdict(lambda: {"", "top"})  # both lead to a page's head
    for visit in visits:
        anchors[visit.page].update(visit.anchors)
    for visit in visits:
        for link in visit.links:
            address, _, anchor = link.partition("#")
            page, fault = file_of(address, base), None
            if link.startswith(urljoin(base, "/")) and page not in files:
                fault = f"no file {page}"
            elif page in anchors and unquote(anchor) not in anchors[page]:
                fault = f"no anchor {anchor} in {page}"
            if fault:
                visit.faults.add(("Dead link", fault))


@cache
def weigh(file: Path) -> tuple[int, int]:
    """Return a file's bytes, and those that a compressing server sends."""
    content = file.read_bytes()
    packed = file.suffix in COMPRESSED
    return len(content), len(gzip.compress(content) if packed else content)


def print_weights(visits: list[list[Visit]], base: str, root: Path) -> None:
    """Print what each page loads, as the first one and behind the first page.

    There the browser has stored already what the book's first page loads.
    """

    def loaded(visit: Visit) -> set[Path]:
        files = {root / file_of(url, base) for url in visit.requests}
        return set(filter(Path.is_file, files))

    def total(files: set[Path]) -> tuple[float, float]:
        plain, packed = zip((0, 0), *map(weigh, files))
        return sum(plain) / 1000, sum(packed) / 1000

    first = (modes[0] for modes in visits if modes[0].page == "index.html")
    stored = set().union(*map(loaded, first))
    width = max(len(modes[0].page) for modes in visits)
    print(f"{'Page':{width}}        KB  gzipped  as second  requests   shift")
    for modes in visits:
        visit = modes[0]
        files = loaded(visit)
        (plain, packed), (_, second) = total(files), total(files - stored)
        shift = max(visit.shift for visit in modes)
        print(
            f"{visit.page:{width}} {plain:9,.0f} {packed:8,.0f}"
            f" {second:10,.0f} {len(visit.requests):9} {shift:7.3f}"
        )


def print_faults(visits: list[Visit]) -> int:
    """Print the faults by kind, each on one line, and return their number."""
    faults = defaultdict(lambda: defaultdict(list))
    for visit in visits:
        for kind, text in sorted(visit.faults):
            faults[kind][f"{visit.page}: {text}"].append(visit.mode)
    for kind in sorted(faults):
        print(f"\n{kind}")
        for line, modes in faults[kind].items():
            where = f" ({', '.join(modes)})" if len(modes) < MODES else ""
            print(f"  {line}{where}")
    return sum(map(len, faults.values()))


def find_chromium() -> str | None:
    usual = ("chromium", "chromium-browser", "google-chrome")
    chosen = os.environ.get("CHROMIUM")
    found = map(shutil.which, [chosen] if chosen else usual)
    return next(filter(None, found), None)


def main(folder: str = "_build/html") -> int:
    """Check the site in a folder and return the exit status."""
    root = Path(folder).resolve()
    found = (file for file in root.rglob("*") if file.is_file())
    files = {file.relative_to(root).as_posix() for file in found}
    # The theme leaves pieces of its templates in _static: no pages.
    html = sorted(file for file in files if file.endswith(".html"))
    pages = [file for file in html if not file.startswith("_static/")]
    chromium = find_chromium()
    if not pages:
        print(f"No page in {root}: build the site first (make book).")
        return 2
    if not chromium:
        print(NO_CHROMIUM)
        return 2
    # The site lies in a folder of its host, as when published: "/" is outside.
    server = Server(("127.0.0.1", 0), partial(Handler, directory=root.parent))
    Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/{root.name}/"
    browsers = min(4, os.cpu_count() or 1)
    shares = [pages[first::browsers] for first in range(browsers)]
    with ThreadPoolExecutor(browsers) as pool:
        shares = pool.map(partial(visit_all, chromium, base), shares)
        visits = sorted(chain(*shares), key=attrgetter("page"))
    server.shutdown()

    check_links(visits, base, files)
    modes = [visits[i : i + MODES] for i in range(0, len(visits), MODES)]
    print_weights(modes, base, root)
    count = print_faults(visits) or "no"
    print(f"\n{len(pages)} pages, each opened in {MODES} ways: {count} faults.")
    failed = sum(bool(visit.faults) for visit in visits)
    print(f"{len(visits) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
