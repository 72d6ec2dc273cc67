{{- define "muster.name" -}}
muster-operator
{{- end }}

{{- define "muster.fullname" -}}
{{- if contains "muster" .Release.Name -}}
{{ printf "%s-operator" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-muster-operator" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "muster.selectorLabels" -}}
app.kubernetes.io/name: {{ include "muster.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "muster.labels" -}}
{{ include "muster.selectorLabels" . }}
app.kubernetes.io/part-of: muster
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "muster.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "muster.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name must be set when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "muster.image" -}}
{{- $repository := required "image.repository must be set to where you pushed the image (README, \"On Kubernetes\")" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" $repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end -}}
{{- end }}

{{- /* Restricted Pod Security, for the operator and its test. */ -}}
{{- define "muster.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "muster.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
