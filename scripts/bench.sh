#!/usr/bin/env bash
# Runs the benchmarks, or those named, after installing what they are compared with where that is possible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/system-packages.sh bench
exec env PYTHONPATH=. .venv/bin/python -m bench ${QUICK:+--quick} "${@%.py}"
