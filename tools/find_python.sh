#!/bin/sh
# Prints the path of a Python that runs and can make virtual environments: of the given version ("3.12"), or
# without an argument the first that works of 3.13, 3.12, 3.11 and any later python3. A name on PATH is not enough
# (version managers leave shims for versions that are not active), so every candidate is started.
works() {
    "$1" -c "import ensurepip, sys, venv; sys.exit(not ($2))" >/dev/null 2>&1 && { echo "$1"; exit 0; }
}
managed="${PYENV_ROOT:-$HOME/.pyenv}/versions"
if [ -n "$1" ]; then
    is_version="'%d.%d' % sys.version_info[:2] == '$1'"
    works "python$1" "$is_version"
    for candidate in "$managed/$1"*/bin/python; do works "$candidate" "$is_version"; done
    echo "no working Python $1 found: install it, with its venv module" >&2
else
    for candidate in python3.13 python3.12 python3.11 python3 python "$managed"/3.1[1-3]*/bin/python; do
        works "$candidate" "sys.version_info >= (3, 11)"
    done
    echo "no working Python 3.11 or later found: install one, with its venv module, or run make PYTHON=/path/to/python" >&2
fi
exit 1
