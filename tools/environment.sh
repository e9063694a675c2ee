#!/bin/sh
# environment.sh DIRECTORY PYTHON PIP-ARGUMENTS...
# Makes or updates a virtual environment. DIRECTORY/.ready is written last, and an environment that could
# not be completed is removed, so an environment with this file is always complete; one without it is made again.
# If $FIRST is set, it is installed before the rest: packages from an index of their own, which is used for no others.
# $MEANWHILE is a command that runs once $FIRST is installed, while the rest is; if it fails, the environment is made all the same.
directory=$1 python=$2
shift 2
[ -n "$python" ] || exit 1
[ -e "$directory/.ready" ] || rm -rf "$directory"
rm -f "$directory/.ready"
complete=no
trap '[ $complete = yes ] || rm -rf "$directory"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
echo "making $directory"
{ [ -x "$directory/bin/python" ] || "$python" -m venv "$directory"; } || exit 1
# shellcheck disable=SC2086  # $FIRST is a list of words
[ -z "$FIRST" ] || "$directory/bin/python" -m pip install --quiet --disable-pip-version-check $FIRST || exit 1
# shellcheck disable=SC2086
[ -z "$MEANWHILE" ] || $MEANWHILE &
"$directory/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || { wait; exit 1; }
wait
touch "$directory/.ready" && complete=yes
