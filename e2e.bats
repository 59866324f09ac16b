#!/usr/bin/env bats
# The wasm end to end, in the words of `kwctl`. Without KWCTL the host of the testkit stands in for it; the file passes
# unchanged with the real one. Few tests, because each starts a process: what the policy decides is tested in `tests`.
# Cluster reads are answered from session files (`make sessions`), so no cluster is needed.

KWCTL=${KWCTL:-target/debug/headroom-host}
POLICY=annotated-policy.wasm

# Runs the policy on a request of tests/data/requests. Only standard output is the answer: kwctl logs beside it.
evaluate() {
  local request=$1
  shift
  run bash -c '"$@" 2>/dev/null' -- "$KWCTL" run -r "tests/data/requests/$request.json" "$@" "$POLICY"
  echo "status = $status, output = $output" # shown on failure only
  [ "$status" -eq 0 ]
}

# The same, with the reads answered from the session recorded for the request, or from the one named.
evaluate_in_cluster() {
  local request=$1 session=${SESSION:-$1}
  shift
  evaluate "$request" --allow-context-aware \
    --replay-host-capabilities-interactions "tests/data/sessions/$session.yml" "$@"
}

says() {
  echo "expected: $1"
  [[ "$output" == *"$1"* ]]
}

allowed() { says '"allowed":true'; }
denied() { says '"allowed":false'; }
unchanged() { [[ "$output" != *'"patch":'* ]]; }

# The JSON Patch holds this text.
patched() {
  local patch
  patch=$(sed -E 's/.*"patch":"([^"]*)".*/\1/' <<<"$output" | base64 -d)
  echo "patch = $patch, expected: $1"
  [[ "$patch" == *"$1"* ]]
}

@test "allow: a deleted pod is allowed and left alone" {
  evaluate pod-delete
  allowed
  unchanged
}

@test "mutate: a pod without resources gets the defaults of the LimitRange" {
  SESSION=pod-create-plain.never evaluate_in_cluster pod-create-plain \
    --settings-json '{"estimates": {"mode": "never"}}'
  allowed
  says '"patchType":"JSONPatch"'
  patched '"cpu":"250m"'
  patched '"memory":"500Mi"'
  patched '/metadata/annotations'
}

@test "deny: a pod above the maximum is denied, with the container and what to do" {
  evaluate_in_cluster pod-create-invalid-after-default-limit
  denied
  unchanged
  says '"code":403'
  says 'maximum memory usage per Container is 1Gi, but limit is 2Gi'
  says 'container db'
}

@test "context: a pod without resources gets what its image has used in its namespace" {
  # A moment soon after the history of tests/data/usage was collected.
  SESSION=pod-create-plain.own evaluate_in_cluster pod-create-plain \
    --settings-json '{"estimates": {"namespace": "headroom", "replayTime": "2026-11-21T06:00:00Z"}}'
  allowed
  says 'container nginx: cpu request set to 186m (usage of nginx:1.25 in this namespace over 7 days)'
  patched '"cpu":"186m"'
  patched '"memory":"418Mi"'
}

@test "outage: a pod is denied when the LimitRanges cannot be read, with the likely causes" {
  SESSION=pod-create-plain.outage evaluate_in_cluster pod-create-plain
  denied
  says 'cannot list LimitRange in namespace `default`'
  says 'contextAwareResources'
}

@test "settings refused: an unknown field, with the nearest known name" {
  run "$KWCTL" run -r tests/data/requests/pod-delete.json --settings-json '{"limitRange": {}}' "$POLICY"
  echo "status = $status, output = $output"
  [ "$status" -ne 0 ]
  says 'Provided settings are not valid'
  says 'limitRanges'
}
