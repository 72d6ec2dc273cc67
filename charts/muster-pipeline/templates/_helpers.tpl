{{- define "pipeline.name" -}}
muster-pipeline
{{- end }}

{{- define "pipeline.fullname" -}}
{{- if contains "muster-pipeline" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-muster-pipeline" (.Release.Name | trunc 24 | trimSuffix "-") }}
{{- end -}}
{{- end }}

{{- /* Given (dict "root" $ "component" "stream"). */ -}}
{{- define "pipeline.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pipeline.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "pipeline.labels" -}}
{{ include "pipeline.selectorLabels" . }}
app.kubernetes.io/part-of: muster
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "pipeline.podLabels" -}}
{{ include "pipeline.labels" . }}
{{- with .root.Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "pipeline.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "pipeline.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name must be set when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "pipeline.image" -}}
{{- $repository := required "image.repository must be set to an image with muster[pipeline] and Java (charts/muster-pipeline/README.md)" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" $repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end -}}
{{- end }}

{{- /* Refuses, in words, what cannot work. */ -}}
{{- define "pipeline.check" -}}
{{- $values := .Values -}}
{{- if not $values.cluster }}{{ fail "cluster must be set: the name of the cluster that is read" }}{{ end -}}
{{- if not $values.tables }}{{ fail "tables must be set: a store such as s3a://bucket/folder, or a folder below /tables" }}{{ end -}}
{{- $isFolder := not (contains "://" $values.tables) -}}
{{- if and $isFolder (not $values.storage.existingClaim) }}{{ fail "tables is a folder, and storage.existingClaim names no volume for it" }}{{ end -}}
{{- if and $isFolder (not (or (eq $values.tables "/tables") (hasPrefix "/tables/" $values.tables))) }}{{ fail "tables must be below /tables, where storage.existingClaim is mounted" }}{{ end -}}
{{- if and $values.stream.enabled $values.batch.enabled }}{{ fail "stream.enabled and batch.enabled exclude each other: a cluster has one writer" }}{{ end -}}
{{- $writes := or $values.stream.enabled $values.batch.enabled -}}
{{- if and $writes (not $values.source.bootstrap) (not $values.source.segments) }}{{ fail "source.bootstrap or source.segments must be set" }}{{ end -}}
{{- if and $values.source.bootstrap $values.source.segments }}{{ fail "source.bootstrap and source.segments exclude each other" }}{{ end -}}
{{- if and $values.stream.enabled (not $values.source.bootstrap) }}{{ fail "stream.enabled needs source.bootstrap: files are read by batch" }}{{ end -}}
{{- if and $values.source.segments (not (contains "://" $values.source.segments)) (not $values.source.existingClaim) }}{{ fail "source.segments is a folder, and source.existingClaim names no volume for it" }}{{ end -}}
{{- end }}

{{- /* "true" if the platform assigns user and group ids per namespace, and refuses others (OpenShift). */ -}}
{{- define "pipeline.platformSetsUser" -}}
{{- $asked := toString .Values.platformSetsUser -}}
{{- if or (eq $asked "true") (and (eq $asked "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}
true
{{- end -}}
{{- end }}

{{- /* Security contexts of the restricted Pod Security level. */ -}}
{{- define "pipeline.podSecurityContext" -}}
runAsNonRoot: true
{{- if not (include "pipeline.platformSetsUser" .) }}
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "pipeline.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* What all pods begin with: who runs, and as whom. */ -}}
{{- define "pipeline.podHead" -}}
serviceAccountName: {{ include "pipeline.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext: {{- include "pipeline.podSecurityContext" . | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Credentials of the store, for who reads or writes tables. */ -}}
{{- define "pipeline.storeEnv" -}}
{{- with .Values.storage.secrets }}
envFrom:
  {{- range . }}
  - secretRef: {name: {{ . }}}
  {{- end }}
{{- end }}
{{- end }}

{{- /* The container that runs Spark, in one process tree. Given (dict "root" $ "name" "stream" "args" (list ...)). */ -}}
{{- define "pipeline.writer" -}}
{{- $values := .root.Values -}}
- name: {{ .name }}
  image: {{ include "pipeline.image" .root }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  workingDir: /tmp
  args:
    {{- range .args }}
    - {{ . | quote }}
    {{- end }}
  env:
    - {name: HOME, value: /tmp}
    - {name: HADOOP_USER_NAME, value: muster}
    - {name: SPARK_LOCAL_DIRS, value: /tmp}
    {{- range $at, $one := $values.source.secretClient }}
    - name: KAFKA_SECRET_{{ $at }}
      valueFrom: {secretKeyRef: {name: {{ $one.secretName }}, key: {{ $one.key }}}}
    {{- end }}
    {{- with $values.storage.env }}{{- toYaml . | nindent 4 }}{{- end }}
  {{- with include "pipeline.storeEnv" .root | trim }}{{- . | nindent 2 }}{{- end }}
  resources: {{- toYaml $values.resources | nindent 4 }}
  securityContext: {{- include "pipeline.containerSecurityContext" .root | nindent 4 }}
  volumeMounts:
    - {name: tmp, mountPath: /tmp}
    {{- if $values.storage.existingClaim }}
    - {name: tables, mountPath: /tables}
    {{- end }}
    {{- if $values.source.existingClaim }}
    - {name: logs, mountPath: /logs, readOnly: true}
    {{- end }}
    {{- if $values.source.secretFiles }}
    - {name: secrets, mountPath: /secrets, readOnly: true}
    {{- end }}
{{- end }}

{{- define "pipeline.writerVolumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.spark.scratchSize }}}
{{- with .Values.storage.existingClaim }}
- name: tables
  persistentVolumeClaim: {claimName: {{ . }}}
{{- end }}
{{- with .Values.source.existingClaim }}
- name: logs
  persistentVolumeClaim: {claimName: {{ . }}, readOnly: true}
{{- end }}
{{- with .Values.source.secretFiles }}
- name: secrets
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- /* Arguments that stream and batch share, as {"args": [...]}. A secret is $(NAME), which the kubelet fills in. */ -}}
{{- define "pipeline.writerArgs" -}}
{{- $values := .Values -}}
{{- $args := list "--tables" $values.tables "--cluster" $values.cluster "--master" (printf "local[%d]" (int $values.spark.cores)) -}}
{{- if $values.source.bootstrap -}}
{{- $args = concat $args (list "--bootstrap" $values.source.bootstrap) -}}
{{- if $values.source.logEndOffsets -}}{{- $args = concat $args (list "--log-end-offsets" "live") -}}{{- end -}}
{{- else if $values.source.segments -}}
{{- $args = concat $args (list "--segments" $values.source.segments) -}}
{{- end -}}
{{- $args = concat $args (list "--stall-min-ms" (printf "%d" (int64 $values.stallMinMs)) "--offsets-retention-ms" (printf "%d" (int64 $values.offsetsRetentionMs))) -}}
{{- $args = concat $args (list "--conf" (printf "spark.driver.memory=%s" $values.spark.driverMemory)) -}}
{{- range $name, $value := $values.spark.conf -}}{{- $args = concat $args (list "--conf" (printf "%s=%s" $name $value)) -}}{{- end -}}
{{- range $name, $value := $values.source.client -}}{{- $args = concat $args (list "--client" (printf "%s=%s" $name $value)) -}}{{- end -}}
{{- range $at, $one := $values.source.secretClient -}}{{- $args = concat $args (list "--client" (printf "%s=$(KAFKA_SECRET_%d)" $one.property $at)) -}}{{- end -}}
{{- dict "args" $args | toJson -}}
{{- end }}
