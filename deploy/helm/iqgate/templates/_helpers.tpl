{{- define "iqgate.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "iqgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "iqgate.labels" -}}
{{ include "iqgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "iqgate.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "iqgate.configMap" -}}
{{ .Values.existingConfigMap | default (printf "%s-topology" (include "iqgate.name" .)) }}
{{- end }}

{{- /* What a node runs: topology or replica, the name of its setting and of its file. */ -}}
{{- define "iqgate.kind" -}}
{{ if .Values.replica }}replica{{ else }}topology{{ end }}
{{- end }}

{{- /* The address of each router, for nodes. */ -}}
{{- define "iqgate.routers" -}}
{{- $name := include "iqgate.name" . }}
{{- $port := .Values.router.port | int }}
{{- range $i := until (.Values.router.replicas | int) }}{{ if $i }},{{ end }}{{ printf "%s-router-%d.%s-router-headless:%d" $name $i $name $port }}{{ end }}
{{- end }}

{{- /* Settings by their names as variables: (dict "prefix" "IQNODE" "settings" map). */ -}}
{{- define "iqgate.settings" -}}
{{- $prefix := .prefix }}
{{- range $key, $value := .settings }}
- name: {{ $prefix }}_{{ $key | upper | replace "-" "_" }}
  value: {{ if kindIs "slice" $value }}{{ join "," $value | quote }}{{ else if kindIs "float64" $value }}{{ $value | toJson | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}

{{- /* TLS and rules, for both programs: (dict "prefix" "IQNODE" "root" $). */ -}}
{{- define "iqgate.security.env" -}}
{{- $prefix := .prefix }}
{{- with .root.Values.tls }}
{{- if .secretName }}
- name: {{ $prefix }}_TLS_CERT
  value: /etc/iqgate-tls/tls.crt
- name: {{ $prefix }}_TLS_KEY
  value: /etc/iqgate-tls/tls.key
- name: {{ $prefix }}_TLS_CA
  value: /etc/iqgate-tls/ca.crt
- name: {{ $prefix }}_TLS_SERVER_NAME
  value: {{ .serverName | quote }}
{{- if .requireClient }}
- name: {{ $prefix }}_TLS_REQUIRE_CLIENT
  value: "true"
{{- end }}
{{- end }}
{{- end }}
{{- with .root.Values.auth }}
{{- if .secretName }}
- name: {{ $prefix }}_AUTH_RULES
  value: /etc/iqgate-auth/rules.yaml
{{- if .tokens }}
- name: {{ $prefix }}_AUTH_KEYS
  value: /etc/iqgate-auth/keys.json
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "iqgate.security.mounts" -}}
{{- if .Values.tls.secretName }}
- name: tls
  mountPath: /etc/iqgate-tls
  readOnly: true
{{- end }}
{{- if .Values.auth.secretName }}
- name: auth
  mountPath: /etc/iqgate-auth
  readOnly: true
{{- end }}
{{- end }}

{{- define "iqgate.security.volumes" -}}
{{- with .Values.tls.secretName }}
- name: tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .Values.auth.secretName }}
- name: auth
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}

{{- define "iqgate.kafka.env" -}}
{{- with .Values.kafka }}
{{- if .tls }}
- name: IQNODE_KAFKA_TLS
  value: "true"
{{- end }}
{{- if .privateCA }}
- name: IQNODE_KAFKA_TLS_CA
  value: /etc/iqgate-kafka/ca.crt
{{- end }}
{{- if .sasl }}
- name: IQNODE_KAFKA_SASL
  value: {{ .sasl | quote }}
{{- if eq .sasl "oauthbearer" }}
- name: IQNODE_KAFKA_TOKEN_FILE
  value: /etc/iqgate-kafka/token
{{- else }}
- name: IQNODE_KAFKA_USER
  value: {{ .user | quote }}
- name: IQNODE_KAFKA_PASSWORD_FILE
  value: /etc/iqgate-kafka/password
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "iqgate.readiness" -}}
{{- if .root.Values.tls.secretName -}}
tcpSocket:
  port: grpc
{{- else -}}
grpc:
  port: {{ .port }}
{{- end }}
{{- end }}

{{- define "iqgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "iqgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* Pods over zones, and in each over machines: (dict "component" "node" "root" $). */ -}}
{{- define "iqgate.spread" -}}
{{- $component := .component }}
{{- $root := .root }}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "iqgate.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ $component }}
{{- end }}
{{- end }}

{{- /* Where pods may go, from the values of their component. */ -}}
{{- define "iqgate.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
