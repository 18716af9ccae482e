#!/bin/sh
# Make .venv with all that requirements.txt pins: by uv where it is installed, else by pip.
# .venv/.done is written last, so that a set-up which was interrupted starts again.
set -u
python=${PYTHON:-python3}
stop() { echo "$1" >&2; rm -f .venv/.done; exit 1; }

command -v "$python" >/dev/null ||
    stop "There is no '$python' here: install Python 3.11, 3.12 or 3.13, or name one, as in: make book PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null ||
    stop "The book needs Python 3.11, 3.12 or 3.13, and '$python' is $("$python" -V 2>&1 | head -n 1); name another, as in: make book PYTHON=python3.12"

echo "Setting up .venv from requirements.txt: about 2 GB, once."
rm -f .venv/.done
if command -v uv >/dev/null; then
    uv venv --quiet --clear --python "$("$python" -c 'import sys; print(sys.executable)')" .venv &&
        uv pip install --quiet --python .venv/bin/python -r requirements.txt ||
        stop "uv could not install requirements.txt (its reason stands above): is there a network? Then run the same command again."
else
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        stop "'$python' comes without its venv module; on Debian and Ubuntu: apt install python3-venv"
    "$python" -m venv --clear .venv && .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt ||
        stop "pip could not install requirements.txt (its reason stands above): is there a network? Then run the same command again."
fi
touch .venv/.done
