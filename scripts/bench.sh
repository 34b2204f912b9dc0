#!/usr/bin/env bash
# Runs the benchmarks, or those named, after installing what they are compared with where that is possible. They may use tests/services.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/apt.sh

missing=()
for program in ledger hledger wrk redis-server; do
    command -v "$program" >/dev/null || missing+=("$program")
done
if ((${#missing[@]})); then
    # One by one: where a distribution has only some of them, the others are still there to be compared with.
    for package in "${missing[@]}"; do
        (install_packages "$package") || printf 'Without %s what needs it is not run.\n' "$package"
    done
fi
exec env PYTHONPATH=. .venv/bin/python -m bench ${QUICK:+--quick} "${@%.py}"
