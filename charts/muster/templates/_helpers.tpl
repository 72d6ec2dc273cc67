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

{{- /* The same name for all releases: at most one release may serve all namespaces. */ -}}
{{- define "muster.clusterWideBinding" -}}
muster-operator
{{- end }}

{{- /* "true" if the release serves all namespaces. With `auto` a release that is there goes on as it was: what it serves
is in its Deployment, since a role may be somebody else's. `helm template` sees no cluster, so `auto` is namespaced. Whoever upgrades with
`--reuse-values` has no such value: that is `auto`, too. */ -}}
{{- define "muster.clusterWide" -}}
{{- $asked := toString .Values.clusterWide -}}
{{- if and (eq $asked "true") .Values.watchNamespaces -}}
{{- fail "clusterWide=true and watchNamespaces exclude each other: unset one" -}}
{{- end -}}
{{- if eq $asked "true" -}}
true
{{- else if and (ne $asked "false") (not .Values.watchNamespaces) -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace (include "muster.fullname" .) -}}
{{- $marks := default (dict) (dig "metadata" "annotations" (dict) (default (dict) $live)) -}}
{{- if and $live (eq (get $marks "meta.helm.sh/release-name") .Release.Name) -}}
{{- $served := "all" -}}
{{- range $container := $live.spec.template.spec.containers -}}
{{- range $one := $container.env -}}
{{- if eq $one.name "MUSTER_OPERATOR_NAMESPACES" -}}
{{- $served = default "all" (get $one "value") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $served "all" -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Namespaces that the release serves, as {"names": [...]}; none: all of them. */ -}}
{{- define "muster.namespaces" -}}
{{- $names := .Values.watchNamespaces -}}
{{- if include "muster.clusterWide" . -}}
{{- $names = list -}}
{{- else if not $names -}}
{{- $names = list .Release.Namespace -}}
{{- end -}}
{{- dict "names" $names | toJson -}}
{{- end }}

{{- /* Refuses, in words, a second release that serves all namespaces. `helm template` sees no cluster; without Helm the
operators themselves find out (docs/operator.md, "Several releases"). */ -}}
{{- define "muster.onlyClusterWide" -}}
{{- $found := lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" (include "muster.clusterWideBinding" .) -}}
{{- if $found -}}
{{- $marks := default (dict) $found.metadata.annotations -}}
{{- $release := get $marks "meta.helm.sh/release-name" -}}
{{- $namespace := get $marks "meta.helm.sh/release-namespace" -}}
{{- if not (and (eq $release .Release.Name) (eq $namespace .Release.Namespace)) -}}
{{- $who := ternary (printf "release %s in namespace %s" $release $namespace) "an operator that Helm did not install" (ne $release "") -}}
{{- fail (printf "%s serves all namespaces already (ClusterRoleBinding %s); set watchNamespaces or clusterWide=false, or uninstall it first" $who (include "muster.clusterWideBinding" .)) -}}
{{- end -}}
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

{{- /* "true" if the platform assigns user and group ids per namespace, and refuses others (OpenShift). */ -}}
{{- define "muster.platformSetsUser" -}}
{{- $asked := toString .Values.platformSetsUser -}}
{{- if or (eq $asked "true") (and (eq $asked "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}
true
{{- end -}}
{{- end }}

{{- /* Security contexts of the restricted Pod Security level, for the operator and its test. */ -}}
{{- define "muster.podSecurityContext" -}}
runAsNonRoot: true
{{- if not (include "muster.platformSetsUser" .) }}
runAsUser: 10001
runAsGroup: 10001
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "muster.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
