package kube

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// maxIgnored is how many unknown fields are named.
const maxIgnored = 8

// harmless matches names of fields that are shown. Other names may be a secret in a broken file.
var harmless = regexp.MustCompile(`^[A-Za-z-]{1,40}$`)

var errTwice = errors.New("kubeconfig has a field that is there twice: remove one of the two")

// dropUnknown removes the fields of a kubeconfig that client-go does not know, as client-go ignores
// them. It returns a text for each of the first maxIgnored fields, and an error if a field occurs
// twice.
func dropUnknown(document *yaml.Node) (ignored []string, err error) {
	u := &unknownFields{}
	for _, root := range document.Content {
		u.visit(root, reflect.TypeFor[clientcmdv1.Config]())
	}
	if more := u.count - len(u.texts); more > 0 {
		u.texts = append(u.texts, fmt.Sprintf("%d more unknown fields", more))
	}
	return u.texts, u.err
}

// unknownFields collects the fields that are dropped.
type unknownFields struct {
	texts []string
	count int
	err   error
}

// visit drops the unknown fields of a value that is decoded as a type. A value of another form is left to the decoder.
func (u *unknownFields) visit(n *yaml.Node, as reflect.Type) {
	switch as.Kind() {
	case reflect.Pointer:
		u.visit(n, as.Elem())
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return
		}
		for _, element := range n.Content {
			u.visit(element, as.Elem())
		}
	case reflect.Struct:
		if n.Kind == yaml.MappingNode && as != reflect.TypeFor[runtime.RawExtension]() {
			u.visitFields(n, as)
		}
	}
}

// visitFields does visit for a mapping.
func (u *unknownFields) visitFields(n *yaml.Node, as reflect.Type) {
	known := make(map[string]reflect.Type)
	for field := range as.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = field.Type
	}
	seen := make(map[string]bool)
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.ScalarNode && seen[key.Value] {
			u.err = errTwice
		}
		seen[key.Value] = true
		field, ok := known[key.Value]
		if !ok || key.Kind != yaml.ScalarNode {
			u.note(key)
			continue
		}
		u.visit(value, field)
		kept = append(kept, key, value)
	}
	n.Content = kept
}

// note records a field that is dropped.
func (u *unknownFields) note(key *yaml.Node) {
	u.count++
	if u.count > maxIgnored {
		return
	}
	text := fmt.Sprintf("an unknown field in line %d", key.Line)
	if key.Kind == yaml.ScalarNode && harmless.MatchString(key.Value) {
		text += ": " + key.Value
	}
	u.texts = append(u.texts, text)
}
