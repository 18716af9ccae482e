"""Run the cheat sheet's snippets in the Python that runs this file.

``check_cheatsheet.py`` writes them to the standard input and reads what they give
from the standard output, both as JSON. A snippet is a list of statements, each a pair:
its source, and whether its value is asked for. This file runs in the environments of the
frameworks, back to Python 3.7.
"""

import contextlib
import json
import sys
import traceback


def plain(value):
    """Return a number, array, tensor or nested list of them as plain Python."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach()
    elif hasattr(value, "numpy"):  # TensorFlow and Keras
        value = value.numpy()
    return value.tolist() if hasattr(value, "tolist") else value


def run(snippet):
    """Run a snippet and return what each statement gives or raises, up to the end.

    An exception ends it, unless it comes from a statement whose value is asked for.
    """
    names, outcomes = {"__name__": "snippet"}, []
    for source, asked in snippet:
        try:
            if asked:
                value = plain(eval(source, names))
                outcomes.append({"gives": repr(value)})
            else:
                exec(source, names)
                outcomes.append({})
        except Exception as error:
            message = traceback.format_exception_only(type(error), error)
            raised = {"raises": type(error).__name__, "message": message[-1]}
            outcomes.append(raised)
            if not asked:
                break
    return outcomes


if __name__ == "__main__":
    snippets = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        results = [run(snippet) for snippet in snippets]
    json.dump(results, sys.stdout)
