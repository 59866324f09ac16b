#!/usr/bin/env bash
# Installs, upgrades and uninstalls the Helm chart at a real API server on loopback, that of scripts/control-plane.sh. There
# are no nodes, so no pod runs; what counts is that objects are accepted, rights are as meant, and nothing stays behind.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup-debian.sh jq
helm=$(scripts/setup-debian.sh helm)
programs=$(scripts/control-plane.sh)
chart=deploy/charts/headroom
work=$(mktemp -d)
processes=()

stop() {
  # Nothing is to be kept, and an API server that is asked to end waits for its etcd.
  kill -KILL "${processes[@]}" 2>/dev/null || true
  wait 2>/dev/null
  rm -rf "$work"
}
trap stop EXIT

say() { echo "test-chart-in-cluster: $*"; }
fail() { tail -n 5 "$work"/*.log >&2; say "$*" >&2; exit 1; }

# --- a control plane ----------------------------------------------------------------------------------------
free_port() {
  local port=0
  until [ $port != 0 ] && ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((20000 + RANDOM % 12000)); done
  echo $port
}

openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
  -keyout "$work/server.key" -out "$work/server.crt" 2>/dev/null
openssl genrsa -out "$work/accounts.key" 2048 2>/dev/null
echo "test-chart,admin,admin,system:masters" >"$work/tokens.csv"

# As in managed clusters that keep Kubernetes' own priority class for namespaces with a ResourceQuota for it.
cat >"$work/admission.yaml" <<EOF
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: ResourceQuota
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: ResourceQuotaConfiguration
      limitedResources:
        - {resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [system-cluster-critical]}]}
EOF

etcd_url=http://127.0.0.1:$(free_port)
peer_url=http://127.0.0.1:$(free_port)
"$programs/etcd" --data-dir="$work/etcd" --listen-client-urls="$etcd_url" --advertise-client-urls="$etcd_url" \
  --listen-peer-urls="$peer_url" --initial-advertise-peer-urls="$peer_url" --initial-cluster="default=$peer_url" \
  --unsafe-no-fsync >"$work/etcd.log" 2>&1 &
processes+=($!)
port=$(free_port)
"$programs/kube-apiserver" --etcd-servers="$etcd_url" --secure-port="$port" --bind-address=127.0.0.1 \
  --advertise-address=127.0.0.1 --endpoint-reconciler-type=none --service-cluster-ip-range=10.96.0.0/16 \
  --tls-cert-file="$work/server.crt" --tls-private-key-file="$work/server.key" \
  --service-account-key-file="$work/accounts.key" --service-account-signing-key-file="$work/accounts.key" \
  --service-account-issuer=https://kubernetes.default.svc --token-auth-file="$work/tokens.csv" \
  --admission-control-config-file="$work/admission.yaml" --authorization-mode=RBAC >"$work/kube-apiserver.log" 2>&1 &
processes+=($!)

export KUBECONFIG=$work/kubeconfig HELM_CACHE_HOME=$work/helm/cache HELM_CONFIG_HOME=$work/helm/config HELM_DATA_HOME=$work/helm/data
cat >"$KUBECONFIG" <<EOF
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$port", certificate-authority: $work/server.crt}}]
users: [{name: admin, user: {token: test-chart}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
EOF
kubectl() { "$programs/kubectl" --cache-dir="$work/kube-cache" "$@"; }

deadline=$((SECONDS + 180))
until [ "$(kubectl get --raw /readyz 2>/dev/null)" = ok ]; do
  [ $SECONDS -lt $deadline ] || fail "the API server is not ready"
  kill -0 "${processes[1]}" 2>/dev/null || fail "the API server has ended"
  sleep 0.5
done
"$programs/kube-controller-manager" --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1 \
  --secure-port="$(free_port)" --cert-dir="$work/controllers" --root-ca-file="$work/server.crt" \
  --service-account-private-key-file="$work/accounts.key" --use-service-account-credentials=false \
  >"$work/kube-controller-manager.log" 2>&1 &
processes+=($!)
say "Kubernetes $(kubectl version -o json | jq -r .serverVersion.gitVersion) is ready after $SECONDS s"

# --- what is there ------------------------------------------------------------------------------------------
# All objects but those that Kubernetes makes for itself as time goes by.
inventory() {
  local kinds
  kinds=$(kubectl api-resources --verbs=list -o name | grep -vE '^(events|events.events.k8s.io|endpoints|endpointslices.*|componentstatuses)$' | paste -sd,)
  kubectl get "$kinds" -A -o json 2>/dev/null | jq -r '.items[]
    | {kind, type, namespace: (.metadata.namespace // ""), name: .metadata.name}
    | select((.namespace == "kube-system" or .kind == "APIService" or (.name | IN("kube-root-ca.crt", "openshift-service-ca.crt"))
        or (.kind == "Namespace" and (.name | startswith("kube-"))) or (.kind == "ServiceAccount" and .name == "default")
        or .type == "kubernetes.io/service-account-token") | not)
    | "\(.kind) \(.namespace) \(.name)"' | sort
}

expect() { # what, expected, found
  [ "$2" = "$3" ] || fail "$1: expected $2, found $3"
}
may() { # yes or no, and the question
  local expected=$1
  shift
  local found
  found=$(kubectl auth can-i "$@" 2>/dev/null || true)
  expect "can-i $*" "$expected" "$found"
}
established() { # a definition, or --all; `kubectl wait` fails for one that has no conditions yet
  local deadline=$((SECONDS + 60))
  until kubectl wait --for condition=established --timeout=60s crd "$1" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || fail "not established: $1"
    sleep 0.2
  done
}
release() { "$helm" "$@" -n headroom; }
until_same() { # what is left after an uninstall is cleared away by controllers, in their time
  local deadline=$((SECONDS + 60))
  until [ "$(inventory)" = "$1" ]; do
    [ $SECONDS -lt $deadline ] || fail "$2: $(diff <(echo "$1") <(inventory) || true)"
    sleep 1
  done
}

kubectl apply -f tests/data/charts/crds.yaml >/dev/null
established --all
kubectl create namespace headroom >/dev/null
until kubectl -n headroom get serviceaccount default >/dev/null 2>&1; do sleep 0.2; done
before=$(inventory)

profile='{"apiVersion": "headroom.dev/v1alpha1", "kind": "UsageProfile", "metadata": {"name": "usage-00", "namespace": "default"},
  "spec": {"header": {"format": 3, "collectedAt": "2026-11-21T06:00:00Z"}, "images": {}}}'

# --- install ------------------------------------------------------------------------------------------------
release install headroom "$chart" >"$work/notes"
grep -q 'subresources, mode .monitor' "$work/notes" || fail "the notes do not name the mode: $(cat "$work/notes")"
expect "policies" "headroom headroom-fill headroom-subresources" "$(kubectl get clusteradmissionpolicies -o jsonpath='{.items[*].metadata.name}')"
expect "mode" monitor "$(kubectl get clusteradmissionpolicy headroom -o jsonpath='{.spec.mode}')"
established usageprofiles.headroom.dev
echo "$profile" | kubectl apply -f - >/dev/null
deadline=$((SECONDS + 60))
until [ "$(kubectl -n headroom get pods -o jsonpath='{.items[*].spec.serviceAccountName}')" = headroom-collector ]; do
  [ $SECONDS -lt $deadline ] || fail "the Deployment makes no pod: $(kubectl -n headroom get deployment,replicaset -o yaml)"
  sleep 1
done
if "$helm" install second "$chart" -n default >"$work/second" 2>&1; then fail "a second release is accepted"; fi
grep -q 'invalid ownership metadata\|conflict\|exists and cannot be imported' "$work/second" || fail "the refusal of a second release is unclear: $(cat "$work/second")"
if release upgrade headroom "$chart" --set policies.mode=strict >"$work/wrong" 2>&1; then fail "a wrong value is accepted"; fi

collector=system:serviceaccount:headroom:headroom-collector
may yes patch usageprofiles.headroom.dev -n headroom --as "$collector"
may no patch usageprofiles.headroom.dev -n default --as "$collector"
may yes update leases/headroom-collector -n headroom --as "$collector"
may no create leases -n headroom --as "$collector"
may no list usageprofiles.headroom.dev -A --as "$collector"
may yes watch pods -A --as "$collector"
may yes create events -n default --as "$collector"
may yes list namespaces --as "$collector"
may no get pods -A --as "$collector"
may no update events -n default --as "$collector"
may no get secrets -n headroom --as "$collector"
server=system:serviceaccount:kubewarden:policy-server
may yes watch usageprofiles.headroom.dev -A --as "$server"
may yes watch resourcequotas -A --as "$server"
may no patch usageprofiles.headroom.dev -A --as "$server"
# As the collector does when it takes the lease.
kubectl -n headroom get lease headroom-collector -o json --as "$collector" \
  | jq '.spec = {holderIdentity: "pod_store", leaseDurationSeconds: 60, renewTime: "2026-11-21T06:00:00.000000Z"}' \
  | kubectl replace --as "$collector" -f - >/dev/null
say "installed"

# --- while the policy server is down ------------------------------------------------------------------------
# The webhook that Kubewarden's controller makes of a policy, with an address where nothing listens.
with_webhook() {
  kubectl get clusteradmissionpolicy headroom -o json | jq --arg url "https://127.0.0.1:$(free_port)/validate" '{
    apiVersion: "admissionregistration.k8s.io/v1", kind: "ValidatingWebhookConfiguration", metadata: {name: "clusterwide-headroom"},
    webhooks: [{name: "clusterwide-headroom.kubewarden.admission", sideEffects: "None", admissionReviewVersions: ["v1"], timeoutSeconds: 2,
      failurePolicy: .spec.failurePolicy, rules: .spec.rules, clientConfig: {url: $url},
      namespaceSelector: {matchLabels: {tried: "yes"}}}]}' | kubectl apply -f - >/dev/null
  sleep 2 # until the API server has read it
}
kubectl create namespace shop >/dev/null
kubectl label namespace shop tried=yes >/dev/null
until kubectl -n shop get serviceaccount default >/dev/null 2>&1; do sleep 0.2; done
with_webhook
kubectl -n shop run first --image=example/first >/dev/null || fail "in mode monitor, a pod is rejected while the policy server is down"

# Pods without annotations are compared with their templates, which takes further rights.
release upgrade headroom "$chart" --set policies.settings.annotate=false >/dev/null
for kind in pods statefulsets.apps replicationcontrollers jobs.batch; do may yes get $kind -n default --as "$collector"; done
may no list statefulsets.apps -n default --as "$collector"
release upgrade headroom "$chart" --set policies.mode=protect >/dev/null
may no get pods -A --as "$collector"
with_webhook
if kubectl -n shop run second --image=example/second >/dev/null 2>"$work/down"; then fail "in mode protect, a pod is admitted while the policy server is down"; fi
grep -q 'failed calling webhook' "$work/down" || fail "the pod is rejected for another reason: $(cat "$work/down")"
kubectl delete validatingwebhookconfiguration clusterwide-headroom >/dev/null
kubectl delete namespace shop --wait=false >/dev/null
say "requests go on in mode monitor and are rejected in mode protect while the policy server is down"

# --- upgrade ------------------------------------------------------------------------------------------------
# A volume cannot be changed, and the priority class of the file is not there.
release upgrade headroom "$chart" -f "$chart/ci/everything.yaml" --set collector.store.size=2Gi --set collector.store.storageClass= >/dev/null
expect "mode" protect "$(kubectl get clusteradmissionpolicy headroom -o jsonpath='{.spec.mode}')"
expect "holder of the lease" pod_store "$(kubectl -n headroom get lease headroom-collector -o jsonpath='{.spec.holderIdentity}')"
expect "ServiceMonitors" headroom-collector "$(kubectl -n headroom get servicemonitors -o jsonpath='{.items[*].metadata.name}')"
may no list pods -A --as "$collector"
may no create events -n default --as "$collector"
may yes list pods -A --as jane --as-group platform
# As snapshot -A does.
may yes list namespaces -A --as jane --as-group platform
may yes list limitranges -n default --as jane --as-group shop-team
may no list namespaces -A --as jane --as-group shop-team
may no list limitranges -n kube-system --as jane --as-group shop-team
may yes list usageprofiles.headroom.dev -n headroom --as jane@example.com
release upgrade headroom "$chart" -f "$chart/ci/history-only.yaml" >/dev/null
expect "policies" "" "$(kubectl get clusteradmissionpolicies -o jsonpath='{.items[*].metadata.name}')"
may yes get services/prometheus-operated:9090 --subresource=proxy -n default --as "$collector"
may no get services/other:9090 --subresource=proxy -n default --as "$collector"
say "upgraded"

# --- ledger and page ----------------------------------------------------------------------------------------
# What the ledger writes into the objects that are there for it survives an upgrade.
with_ledger() { release upgrade headroom "$chart" -f "$chart/ci/ledger.yaml" --set crds.keep=true,collector.store.keep=true "$@" >/dev/null; }
with_ledger
established tenantquotas.headroom.dev
ledger=system:serviceaccount:headroom:headroom-ledger
fill() {
  kubectl get validatingwebhookconfiguration headroom-ledger -o json --as "$ledger" \
    | jq '.webhooks = [{name: "quota.headroom.dev", sideEffects: "None", admissionReviewVersions: ["v1"], failurePolicy: "Ignore",
        clientConfig: {service: {name: "headroom-ledger", namespace: "headroom"}}}]' \
    | kubectl replace --as "$ledger" -f - >/dev/null
  kubectl -n headroom get secret headroom-ledger-tls -o json --as "$ledger" \
    | jq '.data = {"tls.crt": "eA=="}' \
    | kubectl replace --as "$ledger" -f - >/dev/null
}
fill
with_ledger
expect "webhooks" quota.headroom.dev "$(kubectl get validatingwebhookconfiguration headroom-ledger -o jsonpath='{.webhooks[*].name}')"
expect "certificate" eA== "$(kubectl -n headroom get secret headroom-ledger-tls -o jsonpath='{.data.tls\.crt}')"
may yes list pods -A --as "$ledger"
may yes list tenantquotas.headroom.dev --as jane@example.com
may yes create quotaledgers.headroom.dev -n headroom --as "$ledger"
may yes update resourcequotas/team --subresource=status -n default --as "$ledger"
may no get secrets -n default --as "$ledger"
# The chart has created what the ledger writes.
may yes update leases/headroom-ledger -n headroom --as "$ledger"
may no create leases -n headroom --as "$ledger"
may no create secrets -n headroom --as "$ledger"
may no create validatingwebhookconfigurations --as "$ledger"
# A deleted configuration comes back with the next upgrade, as the documentation and the alert say.
kubectl delete validatingwebhookconfiguration headroom-ledger >/dev/null
with_ledger
expect "restored configuration" headroom-ledger "$(kubectl get validatingwebhookconfiguration headroom-ledger -o jsonpath='{.metadata.name}')"

# Its pods are admitted, with a priority class that is limited only beside the quota of the book.
ledger_pods() { # the priority class of those that are there
  kubectl -n headroom get pods -l app.kubernetes.io/name=headroom-ledger -o json | jq -r '.items[].spec.priorityClassName // "none"' | sort -u | paste -sd' '
}
until_ledger_pods() { # expected
  local deadline=$((SECONDS + 60))
  until [[ "$(ledger_pods)" == *$1* ]]; do
    [ $SECONDS -lt $deadline ] || fail "no pod of the ledger with the priority class $1, but $(ledger_pods): $(kubectl -n headroom get events)"
    sleep 1
  done
}
until_ledger_pods none
with_ledger --set ledger.priorityClassName=system-cluster-critical
deadline=$((SECONDS + 60))
until kubectl -n headroom get events -o jsonpath='{.items[*].message}' | grep -q 'insufficient quota to match these scopes: \[{PriorityClass In \[system-cluster-critical\]}\]'; do
  [ $SECONDS -lt $deadline ] || fail "the limited priority class is not refused: $(kubectl -n headroom get events)"
  sleep 1
done
expect "priority class of the ledger's pods" none "$(ledger_pods)"
sed -n '/^apiVersion: v1$/,/^```$/p' docs/src/tasks/install-with-helm.md | grep -v '^```' | kubectl -n headroom apply -f - >/dev/null
until_ledger_pods system-cluster-critical
kubectl -n headroom delete resourcequota critical-pods >/dev/null

# An upgrade and a rollback leave what people and programs wrote.
kubectl create -f - >/dev/null <<EOF
{"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": "team"},
 "spec": {"namespaces": {"names": ["default"]}, "quota": {"hard": {"pods": "10"}}}}
EOF
written() { # identities and contents
  kubectl get tenantquotas,usageprofiles,quotaledgers,persistentvolumeclaims -A -o json | jq -r '.items[] | [.kind, .metadata.name, .metadata.uid, (.spec | tojson)] | @tsv'
}
filled() {
  kubectl get validatingwebhookconfiguration headroom-ledger -o jsonpath='{.webhooks[*].name} '
  kubectl -n headroom get secret headroom-ledger-tls -o jsonpath='{.data.tls\.crt} '
  kubectl -n headroom get lease headroom-collector -o jsonpath='{.spec.holderIdentity}'
}
fill
was_written=$(written) was_filled=$(filled)
for kind in TenantQuota UsageProfile PersistentVolumeClaim; do grep -q "^$kind" <<<"$was_written" || fail "there is no $kind: $was_written"; done
revision=$(release history headroom -o json | jq '.[-1].revision')
with_ledger --set image.tag=v9,ledger.replicas=1
release rollback headroom "$revision" >/dev/null
expect "what the programs wrote" "$was_filled" "$(filled)"
expect "replicas after the rollback" 3 "$(kubectl -n headroom get deployment headroom-ledger -o jsonpath='{.spec.replicas}')"
release upgrade headroom "$chart" --set collector.enabled=false,policies.enabled=false >/dev/null
expect "programs" "" "$(kubectl -n headroom get deployments -o jsonpath='{.items[*].metadata.name}')"
expect "what people wrote" "$was_written" "$(written)"
# Helm's rollback does not take over what was kept, as README.md says; an upgrade does.
with_ledger
expect "programs" "headroom-collector headroom-ledger headroom-resizer" "$(kubectl -n headroom get deployments -o jsonpath='{.items[*].metadata.name}')"
expect "what people wrote" "$was_written" "$(written)"
say "upgraded and rolled back with objects in place"

# The resizer changes nothing but the sizes of pods, and its own records.
resizer=system:serviceaccount:headroom:headroom-resizer
may yes patch pods --subresource=resize -n default --as "$resizer"
may no patch pods -n default --as "$resizer"
may yes create events -n default --as "$resizer"
may yes update configmaps -n headroom --as "$resizer"
may no get configmaps -n default --as "$resizer"
may yes update leases/headroom-resizer -n headroom --as "$resizer"
may no create leases -n headroom --as "$resizer"
expect "ServiceMonitors" "headroom-collector headroom-ledger headroom-resizer" "$(kubectl -n headroom get servicemonitors -o jsonpath='{.items[*].metadata.name}')"
say "with ledger"

# --- uninstall ----------------------------------------------------------------------------------------------
release upgrade headroom "$chart" -f "$chart/ci/ledger.yaml" >/dev/null
release uninstall headroom >/dev/null
until_same "$before" "uninstalling leaves something behind"
say "uninstalled, nothing left behind"

release install headroom "$chart" --set ledger.enabled=true >/dev/null
established usageprofiles.headroom.dev
echo "$profile" | kubectl apply -f - >/dev/null
was_written=$(written)
release uninstall headroom >/dev/null
expect "what is kept" "$was_written" "$(written)"
# What was kept is taken over by the next release of the same name.
release install headroom "$chart" --set ledger.enabled=true,crds.keep=false,collector.store.keep=false >/dev/null
release uninstall headroom >/dev/null
until_same "$before" "uninstalling what took over kept objects leaves something behind"
say "all passed in $SECONDS s"
