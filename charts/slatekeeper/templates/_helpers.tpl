{{- define "slatekeeper.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "slatekeeper.selector" -}}
app.kubernetes.io/name: slatekeeper
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "slatekeeper.labels" -}}
app.kubernetes.io/name: slatekeeper
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "slatekeeper.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "slatekeeper.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "slatekeeper.image" -}}
{{- with .Values.image }}{{ if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{- define "slatekeeper.sparkImage" -}}
{{- .Values.spark.image | default (printf "slatekeeper/spark:%s" .Chart.AppVersion) }}
{{- end }}

{{/* What drivers of Spark jobs are bound to. */}}
{{- define "slatekeeper.sparkRole" -}}
{{ include "slatekeeper.name" . }}-spark-driver
{{- end }}

{{- define "slatekeeper.engineImage" -}}
{{- .Values.engine.image | default (printf "slatekeeper/slate:%s" .Chart.AppVersion) }}
{{- end }}

{{- define "slatekeeper.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "slatekeeper.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* What the operator may do where it works. Each verb is used; a test counts them. */}}
{{- define "slatekeeper.rules" -}}
- apiGroups: [slatekeeper.io]
  resources: [slatedatabases]
  verbs: [list, watch, create, patch]
- apiGroups: [slatekeeper.io]
  resources: [checkpoints]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [slatekeeper.io]
  resources: [clones, checkpointschedules]
  verbs: [list, watch]
- apiGroups: [slatekeeper.io]
  resources: [slatedatabases/status, checkpoints/status, clones/status, checkpointschedules/status, bulkreads/status]
  verbs: [patch]
- apiGroups: [slatekeeper.io]
  resources: [bulkreads]
  verbs: [list, watch, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# By name only: who may list Secrets can read them all.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
# Whether the namespace of an object is being deleted.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, create, patch, delete]
{{- end }}

{{/* What it may do besides, to start Spark jobs. It cannot give a driver more than the role that is named here. */}}
{{- define "slatekeeper.sparkRules" -}}
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications]
  verbs: [get, create, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, create, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [{{ ternary "roles" "clusterroles" (not (empty .Values.watchNamespaces)) }}]
  resourceNames: [{{ include "slatekeeper.sparkRole" . }}]
  verbs: [bind]
{{- end }}

{{/* What Spark needs of Kubernetes: spark-submit makes a driver, a driver makes its executors and clears up after itself. */}}
{{- define "slatekeeper.sparkDriverRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [services]
  verbs: [create, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [deletecollection]
{{- end }}
