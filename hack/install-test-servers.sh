#!/bin/sh
# Installs the metrics stores that the tests of crates/companion run against, from Debian's packages.
# Installs only what is missing, and starts nothing: the tests start their own servers on loopback.
set -eu

missing=""
need() { # program, package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need prometheus prometheus
need promtool prometheus
need influxd influxdb
need victoria-metrics victoria-metrics
need openssl openssl

if [ -z "$missing" ]; then
    echo "test servers: all installed"
    exit 0
fi

export DEBIAN_FRONTEND=noninteractive
# The packages would start services of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# shellcheck disable=SC2086 # a list of words
apt-get install -y --no-install-recommends $missing || {
    apt-get update
    apt-get install -y --no-install-recommends $missing
}
