#!/usr/bin/env bash
# Starts deploy/compose.yaml as it is, where no registry of images is at hand, and looks at it from outside:
#
#   sudo debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates trixie /tmp/bare
#   sudo scripts/try_compose.sh /tmp/bare
#
# Needs podman (with netavark, aardvark-dns and catatonit) and podman-compose. The images that the file names are made from that bare root and
# Debian's packages under the names of the real ones, so the project's own parts are tried as they are (Dockerfile, compose file,
# Caddyfile), not the images of others. The host name is localhost, for which the proxy makes its certificate itself.
set -euo pipefail
bare=$(realpath "$1")
project=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
library=localhost
away=$(mktemp -d)
compose() { podman-compose --in-pod false --project-name kontobahn-trial --file "$project/deploy/compose.yaml" --env-file "$away/.env" "$@"; }
end() {
    compose down --volumes >/dev/null 2>&1 || true
    rm -rf "$away"
}
trap end EXIT

# --- Images in place of the public ones

cp /etc/ssl/certs/ca-certificates.crt "$bare/etc/ssl/certs/ca-certificates.crt"
ln -sf python3 "$bare/usr/bin/python"
made() { podman image exists "$library/$1"; } # by an earlier trial
made python:3.13-slim || tar -C "$bare" -c . | podman import - $library/python:3.13-slim >/dev/null

cat >"$away/postgres.sh" <<'SH'
#!/bin/sh
# As much of the real image's entry point as the compose file relies on.
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
export PGDATA=/var/lib/postgresql/data/17
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    install -d -o postgres -g postgres -m 700 "$PGDATA"
    echo "$POSTGRES_PASSWORD" >/tmp/password
    chown postgres /tmp/password
    setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/initdb" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB" |
        setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" --single -D "$PGDATA" postgres
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" -D "$PGDATA" -c listen_addresses='*'
SH
stand_in() { # NAME PACKAGE LAST-LINES...
    made "$1" && return
    {
        echo "FROM $library/python:3.13-slim"
        echo "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $2"
        printf '%s\n' "${@:3}"
    } >"$away/Dockerfile"
    podman build --quiet --network host --tag "$library/$1" --file "$away/Dockerfile" "$away" >/dev/null
}
stand_in postgres:17 postgresql-17 "COPY postgres.sh /postgres.sh" \
    'ENV PATH=/usr/lib/postgresql/17/bin:/usr/sbin:/usr/bin:/sbin:/bin' 'ENTRYPOINT ["sh", "/postgres.sh"]'
stand_in redis:7 redis-server 'WORKDIR /data'
stand_in caddy:2 caddy 'ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data' \
    'CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]'
podman build --quiet --network host --tag kontobahn --file "$project/deploy/Dockerfile" --ignorefile "$project/.dockerignore" \
    --format docker "$project" >/dev/null
echo "images: made"

# --- Started

{
    echo "KONTOBAHN_HOST=localhost"
    echo "POSTGRES_PASSWORD=$(openssl rand -hex 24)"
    echo "SECRET_KEY=$(openssl rand -base64 32)"
} >"$away/.env"
compose up --detach --no-build
name() { podman ps --all --filter "label=com.docker.compose.service=$1" --format '{{.Names}}'; }
for _ in $(seq 60); do
    podman exec "$(name proxy)" cat /data/caddy/pki/authorities/local/root.crt >"$away/root.crt" 2>/dev/null && break
    sleep 2
done

# --- Looked at from outside

see() { curl --silent --show-error --cacert "$away/root.crt" "$@"; }
status() { see --output /dev/null --write-out '%{http_code}' "$@"; }
wanted() { # WHAT EXPECTED FOUND
    [[ $2 == "$3" ]] || { echo "$1: expected $2, found $3" >&2; podman logs --tail 30 "$(name kontobahn)" >&2; exit 1; }
    echo "$1: $3"
}
for _ in $(seq 60); do [[ $(status https://localhost/healthz || true) == 200 ]] && break; sleep 2; done
wanted "health page through the proxy" 200 "$(status https://localhost/healthz)"
wanted "metrics through the proxy" 404 "$(status https://localhost/metrics)"
wanted "plain HTTP is led to https" 308 "$(status http://localhost/dashboard)"
wanted "guide" 200 "$(status https://localhost/docs/guide)"
inside() { podman exec "$(name kontobahn)" "$@"; }
wanted "user of the service" 10001 "$(inside id -u)"
wanted "its file system" "Read-only" "$(inside touch /opt/kontobahn/x 2>&1 | grep -o -i 'read-only' | head -1)"
wanted "its data" "writable" "$(inside sh -c 'touch /data/x && rm /data/x && echo writable')"
wanted "its health check" 0 "$(podman healthcheck run "$(name kontobahn)" >/dev/null 2>&1; echo $?)"
organization=$(inside kontobahn organizations create --name "Muster GmbH" | grep -oE '[0-9a-f-]{36}' | head -1)
key=$(inside kontobahn keys create --organization "$organization" --name trial | grep -oE 'kb_[A-Za-z0-9_-]+' | head -1)
wanted "a call with a key" 200 "$(status --header "x-api-key: $key" https://localhost/v2/banking/accounts)"
inside kontobahn doctor
compose stop kontobahn >/dev/null 2>&1
wanted "how the service ended" 0 "$(podman inspect --format '{{.State.ExitCode}}' "$(name kontobahn)")"
