package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"isthmus/e2e/kube"
)

// TestRefuses: what this package does not know of a template is an error.
func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(*corev1.PodSpec){
		"there is none of this name":   func(s *corev1.PodSpec) { s.Containers[0].Name = "other" },
		"command":                      func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"/bin/sh"} },
		"names no user but root":       func(s *corev1.PodSpec) { s.SecurityContext.RunAsUser = nil },
		"runAsNonRoot is not set":      func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil },
		"envFrom":                      func(s *corev1.PodSpec) { s.Containers[0].EnvFrom = make([]corev1.EnvFromSource, 1) },
		"variable A: its source":       func(s *corev1.PodSpec) { s.Containers[0].Env[0].ValueFrom = &corev1.EnvVarSource{} },
		"volume data at /data":         func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts[0].MountPath = "/data" },
		"volume data is no projected":  func(s *corev1.PodSpec) { s.Volumes[0].Projected = nil },
		"volume data has no token":     func(s *corev1.PodSpec) { s.Volumes[0].Projected.Sources = nil },
		"token of ServiceAccount own:": func(*corev1.PodSpec) {}, // all the rest is understood
	} {
		spec := corev1.PodSpec{
			ServiceAccountName: "own",
			SecurityContext:    &corev1.PodSecurityContext{RunAsUser: new(int64(1)), RunAsNonRoot: new(true)},
			Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: accountPath}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}}}},
		}
		change(&spec)
		c, err := kube.New("west", &rest.Config{Host: "https://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(t.Context(), Config{Template: corev1.PodTemplateSpec{Spec: spec}, Container: "c", Client: c, Binary: "pod.go", Dir: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error with %q", err, want)
		}
	}
}

func TestExpand(t *testing.T) {
	all := variables{{"A", "old"}, {"A", "new"}, {"B_1", "two"}}
	if got := all.expand("x=$(A) $(B_1)$(B_1) $(C) $A $()"); got != "x=new twotwo $(C) $A $()" {
		t.Error(got)
	}
}
