#!/usr/bin/env bash
# Installs the programs that a purpose starts, where they are missing: `system-packages.sh [tests|bench|cluster|pictures|bare]`.
# tests/test_programs.py holds what tests, scripts, benchmarks and trials start to the lines below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/apt.sh

missing=()
unavailable=()
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
compare() { # PACKAGE PROGRAM: what a benchmark is compared with, where the distribution has it
    installed "$2" || (install_packages "$1") || unavailable+=("$1")
}

PATH=$PATH:/usr/sbin
case ${1:-tests} in
tests)
    need postgresql initdb postgres pg_dump pg_restore
    need redis-server redis-server
    need "chromium-headless-shell|chromium|chromium-browser" "chromium-headless-shell|chromium|chromium-browser|google-chrome"
    need curl curl
    need systemd systemd-analyze
    need nodejs node # 18 or newer
    need zsh zsh
    need fish fish
    ;;
cluster)
    need postgresql initdb postgres pg_basebackup
    need redis-server redis-server
    need haproxy haproxy
    need pgbouncer pgbouncer
    need iproute2 ip
    ;;
bench)
    compare ledger ledger
    compare hledger hledger
    compare wrk wrk
    ;;
pictures)
    need poppler-utils pdftoppm
    ;;
bare)
    need debootstrap debootstrap
    ;;
*)
    fail "There is no such purpose: $1"
    ;;
esac

((${#missing[@]} == 0)) || install_packages "${missing[@]}"
((${#unavailable[@]} == 0)) || printf 'Without %s what is compared with it is not run.\n' "${unavailable[@]}"
