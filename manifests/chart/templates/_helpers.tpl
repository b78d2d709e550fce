{{/* The labels of all objects; the chart's own win. */}}
{{- define "isthmus.labels" -}}
{{- include "isthmus.labelsWith" (list . dict) -}}
{{- end }}

{{/* The labels of an object that has more than all others: a list of the root and a map. */}}
{{- define "isthmus.labelsWith" -}}
{{- $more := index . 1 -}}
{{- with index . 0 -}}
{{- $own := dict
      "app.kubernetes.io/name" "isthmus"
      "app.kubernetes.io/part-of" "isthmus"
      "app.kubernetes.io/instance" .Release.Name
      "app.kubernetes.io/managed-by" .Release.Service
      "app.kubernetes.io/version" .Chart.AppVersion
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{ toYaml (merge $own $more .Values.commonLabels) }}
{{- end }}
{{- end }}

{{/* The labels of Pods: an upgrade of the chart alone replaces none. */}}
{{- define "isthmus.podLabels" -}}
{{ toYaml (merge (dict "app.kubernetes.io/name" "isthmus" "app.kubernetes.io/part-of" "isthmus") .Values.podLabels .Values.commonLabels) }}
{{- end }}

{{/* The name of an object that is of no namespace, or of another one than the release. */}}
{{- define "isthmus.global" -}}
isthmus-{{ .Release.Namespace }}
{{- end }}

{{- define "isthmus.image" -}}
{{- with .Values.image -}}
{{- if and .tag .digest }}{{ fail "image.tag is set beside image.digest, which decides: set image.digest to that of the tag and leave image.tag out, or set it to an empty text" }}{{ end -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* off, plan or on: YAML takes off and on without quotes for booleans. */}}
{{- define "isthmus.exports" -}}
{{- $mode := toString .Values.exports.mode -}}
{{ get (dict "true" "on" "false" "off") $mode | default $mode }}
{{- end }}

{{/* The members of a map that are not null. Helm removes a null from the values, except from those of a subchart. */}}
{{- define "isthmus.present" -}}
{{- $present := dict -}}
{{- range $name, $value := . -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $present $name $value }}{{ end -}}
{{- end -}}
{{- with $present }}{{ toYaml . }}{{ end -}}
{{- end }}
