#!/usr/bin/env bash
# Records the session files of e2e.bats: what the policy asks its host for, and what the objects of test_data answer.
# A session is the requests' own: one file a request, and `<request>.outage.yml` where every read fails.
set -euo pipefail
cd "$(dirname "$0")/.."

host=${HOST:-${CARGO_TARGET_DIR:-target}/debug/headroom-host}
clusters=()
for file in test_data/context/* test_data/demo/*; do clusters+=(--cluster "$file"); done

# The moment at which histories are read, so that they do not age.
now='{"estimates": {"now": "2026-11-21T06:00:00Z"}}'

record() {
  local session=test_data/sessions/$1.yml request=test_data/requests/$2.json
  shift 2
  "$host" run --allow-context-aware -r "$request" --record-host-capabilities-interactions "$session" "$@" \
    annotated-policy.wasm >/dev/null
}

for request in pod-create-plain pod-create-invalid-after-default-limit pod-update \
  statefulset-create-request-above-default-limit deployment-create pvc-create service-create-loadbalancer; do
  record "$request" "$request" "${clusters[@]}"
done
record pod-create-plain.outage pod-create-plain
record pod-create-plain.never pod-create-plain "${clusters[@]}" --settings-json '{"estimates": {"mode": "never"}}'
for history in own large pool; do
  record "pod-create-plain.$history" pod-create-plain "${clusters[@]}" --settings-json "$now" \
    --cluster "test_data/usage/$history.yaml"
done
record pod-create-already-defaulted-by-limitranger.own pod-create-already-defaulted-by-limitranger "${clusters[@]}" \
  --settings-json "$now" --cluster test_data/usage/shop.yaml
for request in pod-create-job-owned deployment-create service-create-loadbalancer; do
  record "$request.nearly-full" "$request" --cluster test_data/context/LimitRange.json \
    --cluster test_data/context/Namespace.json --cluster test_data/nearly-full/ResourceQuota.yaml
done
