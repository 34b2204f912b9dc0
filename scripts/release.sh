#!/usr/bin/env bash
# Builds the package and its Python client into dist/ and checks them: their metadata, then that each way to install the wheels works in
# an environment of its own, away from this folder. PYTHONS names the interpreters to try (default: those that are there).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
version=$($python -c 'import kontobahn; print(kontobahn.__version__)')
if grep -q '^## Unreleased' CHANGELOG.md; then
    echo "CHANGELOG.md: name the version that the changes under “Unreleased” are in, and give the package its number." >&2
    exit 1
fi
rm -rf dist
$python -m build --no-isolation --outdir dist >/dev/null
$python -m build --no-isolation --outdir dist clients/python >/dev/null
$python -m twine check --strict dist/*
wheel=$(realpath "dist/kontobahn-$version-py3-none-any.whl")
client=$(realpath "dist/kontobahn_client-$version-py3-none-any.whl")

away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT

# try NAME INTERPRETER WHAT-TO-INSTALL SETTING...: installs, then does what a first installation does.
try() {
    local name=$1 interpreter=$2 what=$3
    shift 3
    "$interpreter" -m venv "$away/$name"
    "$away/$name/bin/pip" --quiet --disable-pip-version-check --retries 8 install "$what"
    (
        cd "$away"
        export KONTOBAHN_DATA="$away/data-$name"
        [[ $("$name/bin/kontobahn" --version) == "kontobahn $version" ]]
        "$name/bin/kontobahn" migrate >/dev/null
        "$name/bin/kontobahn" organizations create --name "Muster GmbH" >/dev/null
        "$name/bin/kontobahn" doctor >/dev/null
        "$name/bin/python" "$here/scripts/try_installed.py" "$@"
    )
    echo "  $name: works"
}

# The client alone, without the service beside it.
try_client() {
    local interpreter=$1
    "$interpreter" -m venv "$away/$interpreter-client"
    "$away/$interpreter-client/bin/pip" --quiet --disable-pip-version-check --retries 8 install "$client"
    (cd "$away" && "$interpreter-client/bin/python" -c 'from kontobahn_client import Kontobahn; Kontobahn("https://kontobahn.example", "kb").close()')
    echo "  $interpreter-client: works"
}

here=$PWD
for interpreter in ${PYTHONS:-python3.11 python3.12 python3.13 python3.14}; do
    # A name that leads nowhere, such as a version manager's, is not an interpreter.
    "$interpreter" -c "" 2>/dev/null || continue
    try "$interpreter" "$interpreter" "$wheel"
    try "$interpreter-extras" "$interpreter" "$wheel[postgres,redis]" psycopg redis
    try_client "$interpreter"
done
ls -l dist
