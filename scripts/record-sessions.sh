#!/usr/bin/env bash
# Records the session files of e2e.bats: what the policy asks its host for, and what the objects of tests/data answer.
# `<request>.yml`, and with another cluster or settings `<request>.<variant>.yml`; in `.outage` every read fails.
set -euo pipefail
cd "$(dirname "$0")/.."

host=${HOST:-${CARGO_TARGET_DIR:-target}/debug/headroom-host}
clusters=()
for file in tests/data/context/* tests/data/demo/limit-range-default.yaml; do clusters+=(--cluster "$file"); done

# The moment at which histories are read, so that they do not age.
now='{"estimates": {"namespace": "headroom", "replayTime": "2026-11-21T06:00:00Z"}}'

record() {
  local session=tests/data/sessions/$1.yml request=tests/data/requests/$2.json
  shift 2
  "$host" run --allow-context-aware -r "$request" --record-host-capabilities-interactions "$session" "$@" \
    annotated-policy.wasm >/dev/null
}

record pod-create-plain pod-create-plain "${clusters[@]}"
record pod-create-invalid-after-default-limit pod-create-invalid-after-default-limit "${clusters[@]}"
record pod-create-plain.outage pod-create-plain
record pod-create-plain.never pod-create-plain "${clusters[@]}" --settings-json '{"estimates": {"mode": "never"}}'
record pod-create-plain.own pod-create-plain "${clusters[@]}" --settings-json "$now" --cluster tests/data/usage/own.yaml
