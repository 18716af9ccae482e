#!/bin/sh
# Make .venv with all that requirements.txt pins: by uv where it is installed, else by pip.
# .venv/.done is written last, so that a set-up which was interrupted starts again.
set -u
python=${PYTHON:-python3}
log=.venv/set-up.log
stop() { echo "$1" >&2; exit 1; }
failed() {
    stop "$1 could not install requirements.txt: $(grep -i error $log | tail -n 1). Is there a network? If so, see $log; then run the same command again."
}

command -v "$python" >/dev/null ||
    stop "There is no '$python' here: install Python 3.11, 3.12 or 3.13, or name one, as in: make book PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null ||
    stop "The book needs Python 3.11, 3.12 or 3.13, and '$python' is $("$python" -V 2>&1 | head -n 1); name another, as in: make book PYTHON=python3.12"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    stop "'$python' comes without its venv module; on Debian and Ubuntu: apt install python3-venv"

echo "Setting up .venv from requirements.txt: about 2 GB, once."
rm -f .venv/.done
"$python" -m venv --clear .venv || stop "'$python -m venv .venv' failed: is this folder writable?"
if command -v uv >/dev/null; then
    uv pip install --python .venv/bin/python -r requirements.txt >$log 2>&1 || failed uv
else
    .venv/bin/python -m pip install --retries 2 --disable-pip-version-check \
        -r requirements.txt >$log 2>&1 || failed pip
fi
touch .venv/.done
