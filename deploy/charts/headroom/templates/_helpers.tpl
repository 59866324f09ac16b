{{/* Names are fixed: there is one Headroom in a cluster, and the alerts and the dashboard know it by its names. */}}

{{- define "headroom.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_")
  "app.kubernetes.io/part-of" "headroom"
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service -}}
{{- merge $labels (.Values.commonLabels | default dict) | toYaml -}}
{{- end }}

{{/* The labels of the objects of a program, from a list of the root and its name. */}}
{{- define "headroom.programLabels" -}}
{{- merge (dict "app.kubernetes.io/name" (last . | printf "headroom-%s")) (include "headroom.labels" (first .) | fromYaml) | toYaml -}}
{{- end }}

{{/* The metadata of an object of a program in the release's namespace, from such a list. */}}
{{- define "headroom.programMetadata" -}}
name: headroom-{{ last . }}
namespace: {{ (first .).Release.Namespace | quote }}
labels: {{- include "headroom.programLabels" . | nindent 2 }}
{{- end }}

{{/* Keeps an object when the release is uninstalled, or no longer has it. */}}
{{- define "headroom.keep" -}}
helm.sh/resource-policy: keep
{{- end }}

{{/* A reference in a registry from {registry, repository, tag, digest} and the default tag. */}}
{{- define "headroom.reference" -}}
{{- $name := printf "%s/%s" .place.registry .place.repository -}}
{{- if .place.digest -}}
{{ printf "%s@%s" $name .place.digest }}
{{- else -}}
{{ printf "%s:%s" $name (.place.tag | default (printf "v%s" .appVersion)) }}
{{- end -}}
{{- end }}

{{/* What the values choose for the policy object of a role. */}}
{{- define "headroom.policy.spec" -}}
{{- $policies := .root.Values.policies -}}
module: registry://{{ include "headroom.reference" (dict "place" $policies.module "appVersion" .root.Chart.AppVersion) }}
mode: {{ $policies.mode }}
policyServer: {{ $policies.policyServer | quote }}
failurePolicy: {{ $policies.failurePolicy | default (or (eq .role "mutate") (eq $policies.mode "monitor") | ternary "Ignore" "Fail") }}
timeoutSeconds: {{ $policies.timeoutSeconds }}
timeoutEvalSeconds: {{ $policies.timeoutEvalSeconds }}
{{- end }}

{{/*
The namespaces of a policy, from a list of the values' selector and the exempted names. Exempted here too, since a webhook
without an answer rejects. Kubewarden's controller reads no `matchLabels` of a cluster-wide policy.
*/}}
{{- define "headroom.policy.namespaces" -}}
{{- $selector := first . }}
{{- $expressions := $selector.matchExpressions | default list }}
{{- range $label, $value := $selector.matchLabels }}
{{- $expressions = append $expressions (dict "key" $label "operator" "In" "values" (list $value)) }}
{{- end }}
{{- $names := list }}
{{- range last . }}{{ if not (contains "*" .) }}{{ $names = append $names . }}{{ end }}{{ end }}
{{- with $names }}
{{- $expressions = append $expressions (dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" .) }}
{{- end }}
{{- dict "matchExpressions" $expressions | toYaml }}
{{- end }}

{{/* "true" if any selector of the settings needs the labels of namespaces. */}}
{{- define "headroom.selectsByNamespaceLabels" -}}
{{- $settings := .Values.policies.settings -}}
{{- $exempt := $settings.exempt | default dict -}}
{{- $limitRanges := $settings.limitRanges | default dict -}}
{{- $found := hasKey $exempt "namespaceLabels" -}}
{{- range $limitRanges.rules | default list -}}
{{- if hasKey . "namespaceLabels" -}}{{- $found = true -}}{{- end -}}
{{- end -}}
{{- if $found -}}true{{- end -}}
{{- end }}

{{/* "true" if the policies write no annotations, so that Events are about what pods have and their templates do not. */}}
{{- define "headroom.omitsAnnotations" -}}
{{- if not (dig "annotate" true .Values.policies.settings) -}}true{{- end -}}
{{- end }}

{{/*
Whether the policies hold the pods of workloads against TenantQuotas, too.
*/}}
{{- define "headroom.readsTenantQuotas" -}}
{{- if (.Values.policies.settings.quotas | default dict).tenantQuotas -}}true{{- end -}}
{{- end }}

{{/*
"true" if workloads are rejected whose pods would be. The validating policy does that, and fills in their pods for it as the
mutating policy would.
*/}}
{{- define "headroom.rejectsWorkloads" -}}
{{- $settings := .Values.policies.settings -}}
{{- if has "enforce" (list (dig "limitRanges" "workloadMode" "" $settings) (dig "quotas" "workloadMode" "" $settings)) -}}true{{- end -}}
{{- end }}

{{/*
The policy's estimates, with the namespace in which the release's collector keeps history. Without it the policy reads none.
*/}}
{{- define "headroom.estimates" -}}
{{- $estimates := deepCopy (.Values.policies.settings.estimates | default dict) -}}
{{- if and .Values.collector.enabled (not (hasKey $estimates "namespace")) -}}
{{- $_ := set $estimates "namespace" .Release.Namespace -}}
{{- end -}}
{{- toYaml $estimates -}}
{{- end }}

{{/*
A pod template, with what the values of its program say in the same way for all programs. From a dict of the root, the name and
the values of the program, and the template with what only this program has.
*/}}
{{- define "headroom.podTemplate" -}}
{{- $root := .root }}
{{- $values := .values }}
{{- $metadata := .template.metadata }}
{{- $pod := .template.spec }}
{{- $container := first $pod.containers }}
{{- $labels := include "headroom.programLabels" (list $root .name) | fromYaml }}
{{- $_ := set $metadata "labels" (merge $labels ($values.podLabels | default dict)) }}
{{- $_ := set $metadata "annotations" (merge dict ($values.podAnnotations | default dict) $metadata.annotations) }}
{{- $_ := set $pod "serviceAccountName" (printf "headroom-%s" .name) }}
{{- $_ := set $pod "securityContext" $root.Values.podSecurityContext }}
{{- with $root.Values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" }}
{{- with get $values $field }}{{ $_ := set $pod $field . }}{{ end }}
{{- end }}
{{- with concat ($pod.volumes | default list) ($values.volumes | default list) }}{{ $_ := set $pod "volumes" . }}{{ end }}
{{- range $field := list "env" "volumeMounts" }}
{{- with concat (get $container $field | default list) (get $values $field | default list) }}{{ $_ := set $container $field . }}{{ end }}
{{- end }}
{{- $image := $root.Values.image }}
{{- $_ := set $container "image" (include "headroom.reference" (dict "place" $image "appVersion" $root.Chart.AppVersion)) }}
{{- $_ := set $container "imagePullPolicy" $image.pullPolicy }}
{{- $_ := set $container "resources" $values.resources }}
{{- $dropped := dict "drop" (list "ALL") }}
{{- $_ := set $container "securityContext" (dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" $dropped) }}
{{- toYaml .template }}
{{- end }}

{{- define "headroom.collector.podTemplate" -}}
{{- $template := include "headroom.collector.ownTemplate" . | fromYaml }}
{{- include "headroom.podTemplate" (dict "root" . "name" "collector" "values" .Values.collector "template" $template) }}
{{- end }}

{{- define "headroom.collector.ownTemplate" -}}
{{- $collector := .Values.collector -}}
{{- $source := $collector.source -}}
{{- $isPeriodic := eq $collector.kind "CronJob" -}}
metadata:
  annotations:
    {{- if not $isPeriodic }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8080"
    {{- end }}
    kubectl.kubernetes.io/default-container: collector
    {{- with $collector.source.config }}
    checksum/source: {{ toYaml . | sha256sum }}
    {{- end }}
spec:
  # A stopped run ends at the next commit, well within this time.
  terminationGracePeriodSeconds: 60
  {{- if $isPeriodic }}
  restartPolicy: Never
  {{- end }}
  containers:
    - name: collector
      args:
        - collect
        - {{ $source.type }}
        {{- with include "headroom.collector.address" . }}
        - {{ . | quote }}
        {{- end }}
        {{- if $source.config }}
        - --source=/etc/headroom/source.yaml
        {{- end }}
        {{- range $source.args }}
        - {{ . | quote }}
        {{- end }}
        {{- if not $isPeriodic }}
        - --every={{ $collector.every }}
        - "--listen=[::]:8080"
        {{- if $collector.events }}
        - --events{{ if include "headroom.omitsAnnotations" . }}=templates{{ end }}
        {{- end }}
        {{- end }}
        - --store=/var/lib/headroom/usage.redb
        - --namespace={{ .Release.Namespace }}
        {{- with $collector.pool.namespaces }}
        - {{ printf "--pool-namespaces=%s" (join "," .) | quote }}
        {{- end }}
        {{- with $collector.pool.tenantLabel }}
        - --pool-tenant-label={{ . }}
        {{- end }}
      {{- if not $isPeriodic }}
      ports:
        - name: http
          containerPort: 8080
      livenessProbe:
        httpGet:
          path: /healthz
          port: http
        periodSeconds: 60
        failureThreshold: 3
      {{- end }}
      volumeMounts:
        - name: store
          mountPath: /var/lib/headroom
        {{- if $source.config }}
        - name: source
          mountPath: /etc/headroom
          readOnly: true
        {{- end }}
  volumes:
    - name: store
      persistentVolumeClaim:
        claimName: {{ $collector.store.existingClaim | default "headroom-collector" | quote }}
    {{- if $source.config }}
    # The file of `--source`, and the secrets that it names.
    - name: source
      projected:
        sources:
          - configMap:
              name: headroom-collector-source
          {{- with $collector.credentialsSecret }}
          - secret:
              name: {{ . | quote }}
          {{- end }}
    {{- end }}
{{- end }}

{{/* The service by which Prometheus is reached through the API server, if it is. */}}
{{- define "headroom.collector.service" -}}
{{- if eq .Values.collector.source.type "prometheus" -}}{{ .Values.collector.source.service }}{{- end -}}
{{- end }}

{{/* The store that the program is told, if it is not the file of `--source` that names one. */}}
{{- define "headroom.collector.address" -}}
{{- $source := .Values.collector.source -}}
{{- if ne $source.type "metrics-api" -}}
{{- $address := include "headroom.collector.service" . | default $source.url -}}
{{- $config := $source.config | default dict -}}
{{- if $config.service -}}
{{- fail "collector.source.config.service: say collector.source.service instead, for which the chart grants the rights" -}}
{{- else if and $config.url $address -}}
{{- fail (printf "collector.source.config.url: the collector would read %s instead, which collector.source.url (it has a default) or service names: set these to \"\"" $address) -}}
{{- else if not (or $config.url $address) -}}
{{- fail "collector.source.url is empty, and neither collector.source.service nor collector.source.config.url names a store" -}}
{{- end -}}
{{- $address -}}
{{- end -}}
{{- end }}

{{/* The URL of the store, of the values or of the file, if it has one. */}}
{{- define "headroom.collector.url" -}}
{{- with .Values.collector.source -}}
{{- if ne .type "metrics-api" -}}{{ .url | default (.config | default dict).url }}{{- end -}}
{{- end -}}
{{- end }}

{{/* "true" if a port is forwarded to the service: the API server's proxy passes no credentials on, and checks no certificate. */}}
{{- define "headroom.collector.forwardsPort" -}}
{{- $config := .Values.collector.source.config | default dict -}}
{{- if or $config.tokenFile $config.user $config.identity $config.caFile $config.insecureSkipTlsVerify -}}true{{- end -}}
{{- end }}
