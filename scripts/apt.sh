# Installs packages of the distribution. To be sourced: `install_packages NAME...`, and `fail SENTENCE`.
# A NAME may be several, as in `one|other`: the first that the distribution has is taken.

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

install_packages() {
    local as_root=() names="${*//|/ or }"
    command -v apt-get >/dev/null ||
        fail "Please install $names (or what this system calls them) and try again: this is no Debian or Ubuntu."
    if ((EUID != 0)); then
        # Without a terminal nobody could type the password.
        { sudo -n true || { [[ -t 0 ]] && command -v sudo >/dev/null; }; } 2>/dev/null ||
            fail "Please run \"apt-get install ${*/|*/}\" as root and try again."
        as_root=(sudo)
    fi
    printf 'Installing %s ...\n' "$names"
    "${as_root[@]}" bash -s -- "$@" 9<&- <<'ROOT' || fail "Could not install $names; please install them by hand and try again."
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt() { apt-get -qq -o DPkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null; }

# We want the programs, not the servers that their packages would start and set up for good.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
clusters=/etc/postgresql-common/createcluster.conf
if [[ " $* " == *" postgresql "* && ! -e $clusters ]]; then
    mkdir -p "${clusters%/*}"
    printf 'create_main_cluster = false\n' >"$clusters"
fi

apt update || true # a source out of reach matters only if the packages come from it
chosen=()
for names in "$@"; do
    for name in ${names//|/ }; do
        apt-cache show "$name" >/dev/null 2>&1 && break
    done
    chosen+=("$name")
done
said=$(apt install --no-install-recommends "${chosen[@]}" 2>&1) || {
    printf '%s\n' "$said" >&2
    exit 1
}
ROOT
}
