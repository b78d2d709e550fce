package pod

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

// variable is one of the environment.
type variable struct{ name, value string }

// variables are an environment, in order.
type variables []variable

// environment returns the container's: what a kubelet adds, then the template's.
func (cfg Config) environment(c corev1.Container) (variables, error) {
	all, err := cfg.apiServer()
	if err != nil {
		return nil, err
	}
	all = append(all, variable{"HOSTNAME", cfg.Name})
	if len(c.EnvFrom) > 0 {
		return nil, fmt.Errorf("envFrom: not understood here")
	}
	for _, e := range c.Env {
		value := all.expand(e.Value)
		if e.ValueFrom != nil {
			if value, err = cfg.field(e.ValueFrom); err != nil {
				return nil, fmt.Errorf("variable %s: %w", e.Name, err)
			}
		}
		all = append(all, variable{e.Name, value})
	}
	return all, nil
}

// field returns a field of the Pod.
func (cfg Config) field(from *corev1.EnvVarSource) (string, error) {
	if from.FieldRef != nil {
		switch from.FieldRef.FieldPath {
		case "metadata.namespace":
			return cfg.Namespace, nil
		case "metadata.name":
			return cfg.Name, nil
		}
	}
	return "", fmt.Errorf("its source is not understood here: %v", from)
}

var reference = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_]*\)`)

// expand fills in variables, which are written $(NAME). Those that are not there stay.
func (all variables) expand(text string) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		for i := len(all) - 1; i >= 0; i-- {
			if "$("+all[i].name+")" == ref {
				return all[i].value
			}
		}
		return ref
	})
}
