#!/usr/bin/env bash
# Afterwards PostgreSQL's and RabbitMQ's programs are on this machine. Tests and benchmarks start them themselves, on
# 127.0.0.1 with data folders of their own; nothing is configured or started here.
set -euo pipefail

missing=()
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
[ -x /usr/sbin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null || missing+=(rabbitmq-server)
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "These are needed and not installed: ${missing[*]}. Install them with this system's package manager." >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Install these as root first: apt-get install ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
echo "installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
# RUNLEVEL=1: the packages' own services need not run.
"${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
