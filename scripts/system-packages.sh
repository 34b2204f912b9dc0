#!/usr/bin/env bash
# Installs the programs that the tests start, where they are missing; with `cluster`, those of torture/cluster instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/apt.sh

missing=()
installed() { # PROGRAM, or several as in `one|other`, of which one will do
    local program
    for program in ${1//|/ }; do
        if command -v "$program" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$program" >/dev/null; then
            return
        fi
    done
    return 1
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

PATH=$PATH:/usr/sbin
need postgresql initdb postgres pg_ctl
need redis-server redis-server
if [[ ${1:-} == cluster ]]; then
    need haproxy haproxy
    need pgbouncer pgbouncer
    need iproute2 ip
else
    need "chromium-headless-shell|chromium|chromium-browser" "chromium-headless-shell|chromium|chromium-browser|google-chrome"
    need curl curl
    need systemd systemd-analyze
fi

((${#missing[@]} == 0)) || install_packages "${missing[@]}"
