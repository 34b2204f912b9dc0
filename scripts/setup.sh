#!/usr/bin/env bash
# Sets up .venv with what the service needs, and for `setup.sh tests` with what the checks and tests need on top.
# A stamp in .venv says what it was set up from; while that holds, nothing is done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/apt.sh

locks=(requirements.lock)
stamps=(.venv/.stamp-runtime)
if [[ ${1-} == tests ]]; then
    locks+=(requirements-dev.lock)
    stamps+=(.venv/.stamp-tests)
fi
unfinished=.venv/.unfinished

# What a set-up depends on: the place, the interpreter and the contents of the given lock files.
key() {
    { pwd && .venv/bin/python -IS -c 'import sys; print(sys.version)' && cat pyproject.toml "$@"; } | sha256sum
}

up_to_date() {
    local stamp=${stamps[-1]}
    [[ -x .venv/bin/python && -f $stamp && "$(<"$stamp")" == "$(key "${locks[@]}")" ]]
}

# A half-filled .venv, or one that was moved here or has lost its Python, is made anew.
usable() {
    [[ ! -e $unfinished && -x .venv/bin/python ]] &&
        [[ ! -e .venv/.place || "$(<.venv/.place)" == "$PWD" ]] &&
        .venv/bin/python -I -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Prints the first Python that is new enough, preferring one that can make a virtual environment.
choose_python() {
    local candidate fallback=
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$candidate"
            return
        fi
        fallback=${fallback:-$candidate}
    done
    [[ $fallback ]] || fail "Please install Python 3.11 or newer and try again."
    echo "$fallback"
}

make_venv() {
    local python version
    python=$(choose_python)
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    # Debian and Ubuntu keep this part of Python in a package of its own.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || install_packages "python$version-venv"
    echo "Setting up .venv with Python $version ..."
    rm -rf .venv
    mkdir .venv
    touch "$unfinished"
    "$python" -m venv .venv
    pwd >.venv/.place
}

install() {
    .venv/bin/python -m pip --quiet --disable-pip-version-check --no-input --retries 8 install "$@"
}

up_to_date && exit

# Two set-ups at the same time would spoil each other; the second waits, and then mostly finds everything done.
if command -v flock >/dev/null; then
    exec 9<.
    flock 9
    up_to_date && exit
fi

usable || make_venv
rm -f .venv/.stamp-*
touch "$unfinished"
echo "Installing the packages of ${locks[*]} ..."
# The locks are complete; pip has nothing to resolve, and would stumble over what requirements-overrides.in overrides.
install --no-deps --require-hashes "${locks[@]/#/--requirement=}"
install --no-deps --no-build-isolation --editable .
for number in "${!stamps[@]}"; do
    key "${locks[@]:0:number+1}" >"${stamps[number]}"
done
rm "$unfinished"
