#!/usr/bin/env bats
# The wasm end to end, in the words of `kwctl`. Without KWCTL the host of the testkit stands in for it; the file passes
# unchanged with the real one. Cluster reads are answered from session files (`make sessions`), so no cluster is needed.

KWCTL=${KWCTL:-target/debug/headroom-host}
POLICY=annotated-policy.wasm

# Runs the policy on a request of test_data/requests. Only standard output is the answer: kwctl logs beside it.
evaluate() {
  local request=$1
  shift
  run bash -c '"$@" 2>/dev/null' -- "$KWCTL" run -r "test_data/requests/$request.json" "$@" "$POLICY"
  echo "status = $status, output = $output" # shown on failure only
  [ "$status" -eq 0 ]
}

# The same, with the reads answered from the session recorded for the request, or from the one named.
evaluate_in_cluster() {
  local request=$1 session=${SESSION:-$1}
  shift
  evaluate "$request" --allow-context-aware \
    --replay-host-capabilities-interactions "test_data/sessions/$session.yml" "$@"
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

@test "a deleted pod is allowed and left alone" {
  evaluate pod-delete
  allowed
  unchanged
}

@test "a service is let through where quotas are off, and nothing is read for it" {
  evaluate service-create-loadbalancer --settings-json '{"quotas": {"mode": "off"}}'
  allowed
  unchanged
}

@test "a pod without resources gets the defaults of the LimitRange" {
  SESSION=pod-create-plain.never evaluate_in_cluster pod-create-plain \
    --settings-json '{"estimates": {"mode": "never"}}'
  allowed
  says '"patchType":"JSONPatch"'
  patched '"cpu":"250m"'
  patched '"memory":"500Mi"'
  patched '/metadata/annotations'
}

@test "a pod above the maximum is denied, with the container and what to do" {
  evaluate_in_cluster pod-create-invalid-after-default-limit
  denied
  unchanged
  says '"code":403'
  says 'maximum memory usage per Container is 1Gi, but limit is 2Gi'
  says 'container db'
}

@test "a StatefulSet whose pods would be refused is allowed with a warning" {
  evaluate_in_cluster statefulset-create-request-above-default-limit
  allowed
  unchanged
  says '"warnings":["its pods would be refused'
}

@test "a StatefulSet whose pods would be refused is denied where workloads are enforced" {
  evaluate_in_cluster statefulset-create-request-above-default-limit \
    --settings-json '{"limitRanges": {"workloads": "enforce"}}'
  denied
  says 'maximum memory usage per Container is 1Gi, but limit is 2Gi'
}

@test "a Deployment and a claim inside the bounds are allowed" {
  evaluate_in_cluster deployment-create
  allowed
  evaluate_in_cluster pvc-create
  allowed
}

# A moment soon after the histories of test_data/usage were collected.
NOW='{"estimates": {"now": "2026-11-21T06:00:00Z"}}'

@test "in a cold namespace a well-known image is estimated, and the warning says that there was no history" {
  evaluate_in_cluster pod-create-plain
  allowed
  says 'nginx: cpu request set to'
  says 'typical for this image'
  says 'no usage history yet'
}

@test "a pod without resources gets what its image has used in its namespace" {
  SESSION=pod-create-plain.own evaluate_in_cluster pod-create-plain --settings-json "$NOW"
  allowed
  says 'nginx: cpu request set to 186m (p80 of 7d nginx:1.25 in this namespace)'
  patched '"cpu":"186m"'
  patched '"memory":"451Mi"'
}

@test "without a history of its own a namespace profits from that of all" {
  SESSION=pod-create-plain.pool evaluate_in_cluster pod-create-plain --settings-json "$NOW"
  allowed
  says 'p80 of 7d nginx:1.25 in all namespaces'
  patched '"cpu":"212m"'
}

@test "the LimitRange bounds an estimate" {
  SESSION=pod-create-plain.large evaluate_in_cluster pod-create-plain --settings-json "$NOW"
  allowed
  says 'lowered from 3153Mi to the max of LimitRange limits'
  patched '"memory":"1Gi"'
}

@test "what the LimitRanger put in before us is replaced by an estimate" {
  SESSION=pod-create-already-defaulted-by-limitranger.own \
    evaluate_in_cluster pod-create-already-defaulted-by-limitranger --settings-json "$NOW"
  allowed
  says 'web: cpu request set to 186m'
  patched '186m'
}

@test "a stale history is none, and the warning says so" {
  SESSION=pod-create-plain.own evaluate_in_cluster pod-create-plain \
    --settings-json '{"estimates": {"now": "2027-01-01T00:00:00Z"}}'
  allowed
  says 'usage history in UsageProfile usage-26 ignored: collected at 2026-11-21T00:00:00Z, more than 15d ago'
}

@test "a pod that a quota has no room for is denied, with what is missing and what is free" {
  SESSION=pod-create-job-owned.nearly-full evaluate_in_cluster pod-create-job-owned
  denied
  unchanged
  says '"code":403'
  says 'is forbidden: exceeded quota: team, requested: limits.cpu=500m,requests.cpu=250m, used: limits.cpu=7800m,requests.cpu=3900m, limited: limits.cpu=8,requests.cpu=4;'
  says 'quota team: limits.cpu short by 300m (200m available) [500m of container j: '
  says 'requests.cpu short by 150m (100m available)'
}

@test "a Deployment is told at once how many of its pods a quota has room for" {
  SESSION=deployment-create.nearly-full evaluate_in_cluster deployment-create
  allowed
  unchanged
  says 'its pods would be refused: quota team: 0 of 2 replicas fit: '
}

@test "a load balancer is denied where the quota allows none, and let through where it says nothing" {
  SESSION=service-create-loadbalancer.nearly-full evaluate_in_cluster service-create-loadbalancer
  denied
  says 'exceeded quota: team, requested: services.loadbalancers=1, used: services.loadbalancers=0, limited: services.loadbalancers=0'
  evaluate_in_cluster service-create-loadbalancer
  allowed
}

@test "a pod is denied when the LimitRanges cannot be read, with the likely causes" {
  SESSION=pod-create-plain.outage evaluate_in_cluster pod-create-plain
  denied
  says 'cannot list LimitRange in namespace `default`'
  says 'contextAwareResources'
}

@test "a pod is allowed with a warning when the LimitRanges cannot be read and settings say so" {
  SESSION=pod-create-plain.outage evaluate_in_cluster pod-create-plain --settings-json '{"onMissingContext": "warn"}'
  allowed
  unchanged
  says 'cannot list LimitRange in namespace `default`'
}

@test "a policy that was granted no read says so" {
  evaluate pod-create-plain
  denied
  says 'has not been granted access to Kubernetes v1/LimitRange'
}

@test "with LimitRanges, quotas and estimates off, nothing is read and nothing is changed" {
  evaluate pod-create-plain \
    --settings-json '{"limitRanges": {"mode": "off"}, "quotas": {"mode": "off"}, "estimates": {"mode": "never"}}'
  allowed
  unchanged
}

@test "settings with an unknown field are refused, with the nearest known name" {
  run "$KWCTL" run -r test_data/requests/pod-delete.json --settings-json '{"limitRange": {}}' "$POLICY"
  echo "status = $status, output = $output"
  [ "$status" -ne 0 ]
  says 'Provided settings are not valid'
  says 'limitRanges'
}
