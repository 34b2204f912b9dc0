#!/usr/bin/env bash
# Runs every script in bench/, or those named, one after the other. They may use tests/services.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shopt -s nullglob
scripts=(bench/credits.py bench/dashboard_lists.py bench/enable_banking.py bench/extf.py bench/invoice.py bench/matching.py bench/opos.py bench/salt_edge.py bench/statements.py bench/transactions.py bench/webhooks.py)
if (($#)); then
    scripts=("${@%.py}")
    scripts=("${scripts[@]/#/bench/}")
    scripts=("${scripts[@]/%/.py}")
fi
((${#scripts[@]})) || echo "There are no benchmarks in bench/ yet."
for script in "${scripts[@]}"; do
    printf '\n%s\n' "$script"
    PYTHONPATH=. .venv/bin/python "$script" || missed=1
done
exit "${missed:-0}"
