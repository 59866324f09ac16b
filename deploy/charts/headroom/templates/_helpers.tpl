{{/* Names are fixed: there is one Headroom in a cluster, and the alerts and the dashboard know it by its names. */}}

{{- define "headroom.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/part-of: headroom
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "headroom.collector.labels" -}}
app.kubernetes.io/name: headroom-collector
{{ include "headroom.labels" . }}
{{- end }}

{{- define "headroom.ledger.labels" -}}
app.kubernetes.io/name: headroom-ledger
{{ include "headroom.labels" . }}
{{- end }}

{{- define "headroom.resizer.labels" -}}
app.kubernetes.io/name: headroom-resizer
{{ include "headroom.labels" . }}
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
policyServer: {{ $policies.policyServer }}
failurePolicy: {{ $policies.failurePolicy | default (or (eq .role "mutate") (eq $policies.mode "monitor") | ternary "Ignore" "Fail") }}
timeoutSeconds: {{ $policies.timeoutSeconds }}
timeoutEvalSeconds: {{ $policies.timeoutEvalSeconds }}
{{- with $policies.namespaceSelector }}
namespaceSelector: {{- toYaml . | nindent 2 }}
{{- end }}
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

{{- define "headroom.collector.podTemplate" -}}
{{- $collector := .Values.collector -}}
{{- $source := $collector.source -}}
{{- $isPeriodic := eq $collector.kind "CronJob" -}}
metadata:
  labels:
    {{- include "headroom.collector.labels" . | nindent 4 }}
    {{- with $collector.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- if not $isPeriodic }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8080"
    {{- end }}
    kubectl.kubernetes.io/default-container: collector
    {{- with $collector.source.config }}
    checksum/source: {{ toYaml . | sha256sum }}
    {{- end }}
    {{- with $collector.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: headroom-collector
  # A stopped run ends at the next commit, well within this time.
  terminationGracePeriodSeconds: 60
  {{- if $isPeriodic }}
  restartPolicy: Never
  {{- end }}
  {{- with $collector.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $collector.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $collector.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $collector.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $collector.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: collector
      image: {{ include "headroom.reference" (dict "place" $collector.image "appVersion" .Chart.AppVersion) }}
      imagePullPolicy: {{ $collector.image.pullPolicy }}
      args:
        - collect
        - {{ $source.type }}
        {{- if include "headroom.collector.service" . }}
        - {{ $source.service }}
        {{- else if has $source.type (list "prometheus" "influxdb") }}
        - {{ $source.url | quote }}
        {{- end }}
        {{- if $source.config }}
        - --source=/etc/headroom/source.yaml
        {{- end }}
        {{- range $source.args }}
        - {{ . | quote }}
        {{- end }}
        {{- if not $isPeriodic }}
        - --every={{ $collector.every }}
        - --listen=0.0.0.0:8080
        {{- end }}
        - --store=/var/lib/headroom/usage.redb
        - --namespace={{ .Release.Namespace }}
        {{- with $collector.pool.namespaces }}
        - {{ printf "--pool-namespaces=%s" (join "," .) | quote }}
        {{- end }}
        {{- with $collector.pool.tenantLabel }}
        - --pool-tenant-label={{ . }}
        {{- end }}
      {{- with $collector.env }}
      env: {{- toYaml . | nindent 8 }}
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
      resources: {{- toYaml $collector.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: store
          mountPath: /var/lib/headroom
        {{- if $source.config }}
        - name: source
          mountPath: /etc/headroom
          readOnly: true
        {{- end }}
        {{- with $collector.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: store
      persistentVolumeClaim:
        claimName: {{ $collector.store.existingClaim | default "headroom-collector" }}
    {{- if $source.config }}
    # The file of `--source`, and the secrets that it names.
    - name: source
      projected:
        sources:
          - configMap:
              name: headroom-collector-source
          {{- with $collector.credentialsSecret }}
          - secret:
              name: {{ . }}
          {{- end }}
    {{- end }}
    {{- with $collector.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* The service by which Prometheus is reached through the API server, if it is. */}}
{{- define "headroom.collector.service" -}}
{{- if eq .Values.collector.source.type "prometheus" -}}{{ .Values.collector.source.service }}{{- end -}}
{{- end }}
