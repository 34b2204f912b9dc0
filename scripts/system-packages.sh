#!/usr/bin/env bash
# Installs the programs that the tests start, where they are missing; with `cluster`, those of torture/cluster instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/apt.sh

missing=()
installed() { # PROGRAM
    command -v "$1" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null
}
need() { # PACKAGE PROGRAM...
    local program
    for program in "${@:2}"; do
        installed "$program" || {
            missing+=("$1")
            return
        }
    done
}
need_any() { # PACKAGE PROGRAM...
    local program
    for program in "${@:2}"; do
        installed "$program" && return
    done
    missing+=("$1")
}

PATH=$PATH:/usr/sbin
need postgresql initdb postgres pg_ctl
need redis-server redis-server
if [[ ${1:-} == cluster ]]; then
    need haproxy haproxy
    need pgbouncer pgbouncer
    need iproute2 ip
else
    # The same names as in tests/browser/visitor.py.
    need_any "chromium-headless-shell|chromium|chromium-browser" \
        chromium-headless-shell chromium chromium-browser google-chrome
    need curl curl
    need systemd systemd-analyze
fi

((${#missing[@]} == 0)) || install_packages "${missing[@]}"
