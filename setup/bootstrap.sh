#!/bin/sh
# setup/bootstrap.sh TARGET: nothing when all that TARGET (setup, gate, test, bench, lint) needs is there; else finds
# Python 3.11 or newer and hands over to setup/environment.py.
set -eu
cd -- "$(dirname -- "$0")/.."
target=${1:-setup}

inputs='requirements.lock pyproject.toml setup/packages.yaml setup/environment.py setup/system.py engine/debian.py'
where="$PWD ${LOCKSTEP_PYTHON:-} ${LOCKSTEP_CACHE:-} ${XDG_CACHE_HOME:-} ${HOME:-}"
key=$( { echo "$where"; cat $inputs; } | sha256sum | cut -c 1-64)

# The stamp holds the key and the folders of the cache that set-up left behind: any of them may have been deleted since.
if [ -x .venv/bin/python ] && [ -f ".venv/setup-$target" ]; then
    {
        read -r done_key
        while read -r folder; do
            [ -d "$folder" ] || done_key=''
        done
    } <".venv/setup-$target"
    [ "$done_key" = "$key" ] && exit 0
fi

seen=''
for python in ${LOCKSTEP_PYTHON:-python3 python3.13 python3.12 python3.11}; do
    command -v "$python" >/dev/null 2>&1 || continue
    if "$python" -IS -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" -IS setup/environment.py "$target" "$key"
    fi
    seen="$seen $("$python" --version 2>&1 | head -n 1);"
done
echo "setup: Python 3.11 or newer is needed; found:${seen:- none}" >&2
echo "  next: apt-get install python3 (Debian 12 has 3.11), or LOCKSTEP_PYTHON=/path/to/python3.11 make $target" >&2
exit 3
