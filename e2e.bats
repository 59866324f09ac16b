#!/usr/bin/env bats
# The wasm end to end, in the words of `kwctl`. Without KWCTL the host of the testkit stands in for it; the file passes
# unchanged with the real one. Cluster reads are answered from session files, so no cluster is needed.

KWCTL=${KWCTL:-target/debug/headroom-host}
POLICY=annotated-policy.wasm

# Runs the policy on a request of test_data/requests. Only standard output is the answer: kwctl logs beside it.
evaluate() {
  local request=$1
  shift
  run bash -c '"$@" 2>/dev/null' -- "$KWCTL" run -r "test_data/requests/$request.json" "$@" "$POLICY"
  echo "status = $status, output = $output" # shown on failure only
}

allowed() { [[ "$output" == *'"allowed":true'* ]]; }
mutated() { [[ "$output" == *'"patch":'* ]]; }

@test "a deleted pod is allowed and left alone" {
  evaluate pod-delete
  [ "$status" -eq 0 ]
  allowed
  ! mutated
}

@test "a service is none of the policy's business" {
  evaluate service-create-loadbalancer
  [ "$status" -eq 0 ]
  allowed
  ! mutated
}
