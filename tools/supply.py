"""Compare what comes from elsewhere with the list of it, ``supply.toml``.

    python tools/supply.py [SITE]     is everything listed, here and on the built site?
    python tools/supply.py --write    write the checksums anew, after you have looked
    python tools/supply.py --audit    ask pip-audit for known vulnerabilities of the pins

SITE is ``_build/html`` unless given; one that is not built is not looked at. Exit status:
0 when all is as listed, 1 when not; of an audit 1 when a vulnerability is known, and 2
when none is but some package could not be asked about.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
SUFFIXES = {
    *(".css", ".js", ".mjs", ".wasm"),
    *(".eot", ".otf", ".ttf", ".woff", ".woff2"),
}
SOURCES = ("book", "tests", "tools", "utils")
HOW_TO_MEND = "list it in tools/supply.toml with version and licence, under [own] if it is ours"


def read() -> dict:
    return tomllib.loads(LIST.read_text(encoding="utf-8"))


def packages_of(folder: str) -> Path | None:
    """Find the folder in which a package is installed; nothing is imported."""
    spec = find_spec(folder.split("/")[0])
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]).parent


def libraries(listed: dict, root: Path) -> Iterator[tuple[dict, dict]]:
    """Give each library and its files, by their paths below its folder."""
    taken = set()
    for library in listed["library"]:
        folder = library["folder"]
        base = packages_of(folder) if "package" in library else root
        files = {}
        for pattern in library["files"]:
            for path in base.joinpath(folder).glob(pattern):
                if path.is_file() and path not in taken:
                    files[path.relative_to(base / folder).as_posix()] = path
        taken |= {*files.values()}
        yield library, files


def checksum(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def digest(files: dict[str, Path]) -> str:
    """The checksum of what `sha256sum` prints for these files, in their order."""
    lines = [f"{checksum(files[name])}  {name}\n" for name in sorted(files)]
    return sha256("".join(lines).encode()).hexdigest()


def stands_in(text: str, files: dict[str, Path]) -> bool:
    """Is this version named in one of the files?"""
    word = re.compile(
        rb"(?<![\d.])" + re.escape(text).encode() + rb"(?![\d.]\d)"
    )
    return any(word.search(path.read_bytes()) for path in files.values())


def changed(listed: dict, root: Path = ROOT) -> list[str]:
    """Say which libraries are not as listed."""
    found = []
    for library, files in libraries(listed, root):
        name, expected = library["name"], library["version"]
        package = library.get("package")
        installed = version(package) if package else ""
        if expected != installed and not stands_in(expected, files):
            found.append(
                f"{name} {expected} is listed; its files name no such version"
                + f", {package} is {installed}" * bool(package)
            )
        elif digest(files) != library["sha256"]:
            found.append(f"{name} {expected}: files are not those of the list")
    return found


def unlisted(listed: dict, root: Path = ROOT) -> list[str]:
    """Say which fonts, style sheets and scripts of the repository are not listed."""
    known = {root / path for path in listed["own"]["repository"]}
    for _, files in libraries(listed, root):
        known |= {*files.values()}
    return [
        f"{path.relative_to(root).as_posix()}: {HOW_TO_MEND}"
        for source in SOURCES
        for path in sorted(root.joinpath(source).rglob("*"))
        if path.suffix in SUFFIXES and path not in known
    ]


def unlisted_extensions(listed: dict, config: str) -> list[str]:
    """Say which of Sphinx's extensions bring such files and are not listed."""
    names = re.search(r"^ +extensions:\n((?: +- .*\n)+)", config, re.M)[1]
    known = {library["folder"].split("/")[0] for library in listed["library"]}
    found = []
    for name in re.findall(r"- ([\w]+)", names):
        base = packages_of(name)
        if base is None or name in known:
            continue
        files = [
            p for p in base.joinpath(name).rglob("*") if p.suffix in SUFFIXES
        ]
        if files:
            found.append(f"{name}, such as {files[0].name}: {HOW_TO_MEND}")
    return found


def unlisted_on_site(listed: dict, site: Path, root: Path = ROOT) -> list[str]:
    """Say which fonts, style sheets and scripts of the built site are not listed."""
    known = set()
    for _, files in libraries(listed, root):
        known |= {checksum(path) for path in files.values()}
    ours = [path.removeprefix("book/") for path in listed["own"]["repository"]]
    own = {site / path for path in (*ours, *listed["own"]["site"])}
    return [
        f"{path.relative_to(site).as_posix()}, on the site: {HOW_TO_MEND}"
        for path in sorted(site.rglob("*"))
        if path.suffix in SUFFIXES
        and path not in own
        and checksum(path) not in known
    ]


def write(listed: dict) -> None:
    """Put the checksums of what is there in place of those of the list."""
    sums = iter([digest(files) for _, files in libraries(listed, ROOT)])
    text = re.sub(
        r'^sha256 = ".*"$',
        lambda _: f'sha256 = "{next(sums)}"',
        LIST.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    LIST.write_text(text, encoding="utf-8", newline="\n")


def ask(pins: str) -> list[dict]:
    """Return what pip-audit says about each package, or stop with why it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requirements.txt")
        file.write_text(pins, encoding="utf-8")
        command = [sys.executable, "-m", "pip_audit", "-r", str(file)]
        command += ["--no-deps", "--disable-pip", "--format", "json"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False
        )
    try:
        return json.loads(done.stdout)["dependencies"]
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"NOT AUDITED, pip-audit could not ask: {last}")
        sys.exit(2)


def audit(answers: list[dict]) -> tuple[int, str]:
    """Judge what pip-audit said. It counts a package that it could not ask about
    as one without a known vulnerability, so that is looked at here.

    Examples
    --------
    >>> audit([{"name": "a", "vulns": []}, {"name": "b", "skip_reason": "?"}])
    (2, 'Asked about 1 of 2 packages: none has a known vulnerability.\\nNOT AUDITED: b')
    """
    asked = [answer for answer in answers if "skip_reason" not in answer]
    skipped = [a["name"] for a in answers if "skip_reason" in a]
    known = [
        f"- {a['name']} {a['version']}: {v['id']}, mended in"
        f" {', '.join(v['fix_versions']) or 'no version yet'}"
        for a in asked
        for v in a["vulns"]
    ]
    verdict = (
        f"{len(known)} known vulnerabilities:"
        if known
        else (
            "none has a known vulnerability." if asked else "nothing is known."
        )
    )
    lines = [f"Asked about {len(asked)} of {len(answers)} packages: {verdict}"]
    lines += known
    if skipped:
        lines.append(f"NOT AUDITED: {', '.join(skipped)}")
    return (1 if known else 2 if skipped or not asked else 0), "\n".join(lines)


def main(*arguments: str) -> int:
    listed = read()
    match arguments:
        case ["--write"]:
            write(listed)
            return 0
        case ["--audit"]:
            pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
            status, text = audit(ask(pins.replace("-e .\n", "")))
            print(text)
            return status
    site = Path(*arguments) if arguments else ROOT / "_build" / "html"
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    found = changed(listed) + unlisted(listed)
    found += unlisted_extensions(listed, config)
    if site.is_dir():
        found += unlisted_on_site(listed, site)
    print("\n".join(found) or "All that comes from elsewhere is as listed.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
