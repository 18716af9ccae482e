"""Change utils in many small ways, and see whether its unit tests notice.

mutmut makes the mutants, one change in one function each, and runs the tests that reach
the function; ``[tool.mutmut]`` in ``pyproject.toml`` says which tests, and what is left
alone. Arguments are patterns of mutants, as in ``utils.wengert.*``; without any, all that
have no result yet are run, which takes hours. The numbers of the mutants of a function
count up, so ``utils.graphs.*1`` is a sample: every tenth mutant of each function, from
the first on. Results stay in ``mutants/``, and those of a function that changes are
dropped.

``tests/mutations/utils.md`` is written from all results. This fails if less than 90 % are
noticed, or if ``tests/mutations/utils.toml`` has no reason to let a mutant survive.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import orig_function_and_class_names_from_key

RESULTS = Path("tests", "mutations", "utils.md")
NOTICED, ENOUGH = {"killed", "timeout"}, 0.9
# These run while utils is imported, before a mutant can take their place.
AT_IMPORT = {"_operator", "_comparison", "_method", "_reduction"}


def change(mutant: str, path: Path) -> tuple[str, str, str]:
    """Return the function, and the lines before and after the change."""
    function, of_class = orig_function_and_class_names_from_key(mutant)
    name = ".".join(filter(None, [path.stem, of_class, function]))
    lines = get_diff_for_mutant(mutant, path=path).splitlines()[3:]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign))
        for sign in "-+"
    )
    return name, before, after


def main() -> None:
    mutmut = Path(sys.executable).with_name("mutmut")
    subprocess.run([mutmut, "run", *sys.argv[1:]], check=True)
    reasons = tomllib.loads(RESULTS.with_suffix(".toml").read_text("utf-8"))
    because = {}
    for known in reasons["survivor"]:
        key = known["in"], known["before"], known["after"]
        because[key] = known["reason"]
    rows, alive = [], []
    for path in sorted(walk_mutatable_files()):
        data = SourceFileMutationData(path=path)
        data.load()
        codes = {
            mutant: code
            for mutant, code in data.exit_code_by_key.items()
            if orig_function_and_class_names_from_key(mutant)[0]
            not in AT_IMPORT
        }
        verdicts = {
            mutant: status_by_exit_code[code]
            for mutant, code in codes.items()
            if code is not None
        }
        noticed = sum(verdict in NOTICED for verdict in verdicts.values())
        rows.append((path.stem, len(codes), len(verdicts), noticed))
        alive += [
            (*change(mutant, path), verdict)
            for mutant, verdict in verdicts.items()
            if verdict not in NOTICED
        ]
    _, made, run, noticed = zip(*rows, strict=True)
    rows.append(("all", sum(made), sum(run), sum(noticed)))
    good = sum(noticed) >= ENOUGH * sum(run)
    lines = [
        "# Do the tests of `utils` notice a changed line?",
        "",
        "`make mutate-utils` wrote this; `tools/mutate_utils.py` says what counts, and",
        "how to run a part. A sample is every tenth mutant of each function.",
        "",
        "| module | mutants | run | noticed | |",
        "| --- | --: | --: | --: | --: |",
    ]
    for name, made, run, noticed in rows:
        share = f"{noticed / run:.1%}" if run else ""
        lines.append(f"| {name} | {made} | {run} | {noticed} | {share} |")
    lines += ["", "## Not noticed", ""]
    for function, before, after, verdict in alive:
        reason = because.get((function, before, after), "NO REASON: test it.")
        good = good and not reason.startswith("NO REASON")
        where = function if verdict == "survived" else f"{function} ({verdict})"
        lines.append(f"- {where}: `{before}` became `{after}`. {reason}")
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{rows[-1][-1]} of {rows[-1][-2]} noticed; see {RESULTS}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
