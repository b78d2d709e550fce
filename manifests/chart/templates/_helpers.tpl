{{/* Labels of all objects. The chart's own labels take precedence. */}}
{{- define "isthmus.labels" -}}
{{- include "isthmus.labelsWith" (list . dict) -}}
{{- end }}

{{/* Labels of an object with additional labels. The argument is a list of the root and a map. */}}
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

{{/* Labels of Pods. They have no version, so that an upgrade of only the chart replaces no Pods. */}}
{{- define "isthmus.podLabels" -}}
{{ toYaml (merge (dict "app.kubernetes.io/name" "isthmus" "app.kubernetes.io/part-of" "isthmus") .Values.podLabels .Values.commonLabels) }}
{{- end }}

{{/* Name of an object that is cluster-scoped or in a namespace other than that of the release. */}}
{{- define "isthmus.global" -}}
isthmus-{{ .Release.Namespace }}
{{- end }}

{{- define "isthmus.image" -}}
{{- with .Values.image -}}
{{- if and .tag .digest }}{{ fail "image.tag and image.digest are both set: to use the tag, set image.digest to \"\"; to use the digest, remove image.tag" }}{{ end -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The mode of exports: off, plan or on. Without quotes, YAML parses off and on as booleans. */}}
{{- define "isthmus.exports" -}}
{{- $mode := toString .Values.exports.mode -}}
{{ get (dict "true" "on" "false" "off") $mode | default $mode }}
{{- end }}

{{/* The members of a map that are not null. Helm removes nulls from values, but not from the values of a subchart. */}}
{{- define "isthmus.present" -}}
{{- $present := dict -}}
{{- range $name, $value := . -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $present $name $value }}{{ end -}}
{{- end -}}
{{- with $present }}{{ toYaml . }}{{ end -}}
{{- end }}
