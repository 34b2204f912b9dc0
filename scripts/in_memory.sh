#!/usr/bin/env bash
# in_memory.sh COMMAND...: runs it with temporary files in memory, if the machine has that to spare: tests make and delete
# hundreds of thousands of files, and a disk takes longer over each than most statements do.
set -euo pipefail
place=/dev/shm gib=$((1024 * 1024))

# In KiB. The processes of the tests need most of the memory themselves.
free=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null || true)
room=$(stat -f -c '%T %a %S' "$place" 2>/dev/null | awk '$1 == "tmpfs" { print int($2 * $3 / 1024) }' || true)
if [ "${free:-0}" -lt $((10 * gib)) ] || [ "${room:-0}" -lt $((4 * gib)) ]; then
    exec "$@"
fi

# Of those that were killed before they could remove it: nobody holds its lock any more.
for left in "$place"/kontobahn-tests-*; do
    [ ! -O "$left" ] || flock --nonblock "$left" rm -rf "$left" || true
done
unlocked=$(mktemp -d "$place/kontobahn-XXXXXXXX")
folder=$place/kontobahn-tests-${unlocked##*-}
trap 'rm -rf "$unlocked" "$folder"' EXIT
exec 9<"$unlocked"
flock 9
chmod 755 "$unlocked" # PostgreSQL is started in it under another account
mv "$unlocked" "$folder"

# A machine may forbid to start programs from there, which tests do.
echo '#!/bin/sh' >"$folder/program"
chmod +x "$folder/program"
if "$folder/program" 2>/dev/null; then
    export TMPDIR=$folder
fi
"$@"
