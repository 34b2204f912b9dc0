#!/usr/bin/env bash
# Writes the lock files: exact versions with the hashes of every wheel, and no addresses. One file serves every
# supported Python and processor, by markers. Arguments go to the resolver (--upgrade).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv=.venv/bin/uv
[[ -x $uv ]] || .venv/bin/python -m pip --quiet --disable-pip-version-check --retries 8 install uv

for name in requirements requirements-dev; do
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --override requirements-overrides.in --custom-compile-command "make lock" --output-file "$name.lock" "$@" "$name.in"
done
