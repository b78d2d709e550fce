package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/kube"
)

// annotation is a command kubectl annotate, as users type it.
type annotation struct {
	command                   string
	resource, name, namespace string
	overwrite                 bool
	values                    map[string]*string // nil: to be removed
}

// parseCommands reads lines of a shell that are all kubectl annotate. What kubectl would refuse is an error.
func parseCommands(script string) (list []annotation, err error) {
	for line := range strings.SplitSeq(strings.ReplaceAll(script, "\\\n", " "), "\n") {
		words, err := shellWords(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		if len(words) == 0 {
			continue
		}
		a, err := parseAnnotation(words)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		a.command = line
		list = append(list, a)
	}
	return list, nil
}

// shellWords divides a line into words, without quotes and comment. What a shell would expand is an error.
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	started := false
	for line != "" {
		c := line[0]
		line = line[1:]
		switch {
		case c == '\'' || c == '"':
			quoted, rest, closed := strings.Cut(line, string(c))
			if !closed {
				return nil, errors.New("a quote has no end")
			}
			word.WriteString(quoted)
			started, line = true, rest
		case c == ' ':
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		case c == '#' && !started:
			return words, nil
		case strings.ContainsRune("$`\\*?[]{}()<>|&;!~#", rune(c)):
			return nil, fmt.Errorf("a shell would not take %q as it is", c)
		default:
			word.WriteByte(c)
			started = true
		}
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

func parseAnnotation(words []string) (a annotation, err error) {
	if len(words) < 2 || words[0] != "kubectl" || words[1] != "annotate" {
		return a, errors.New("it is not kubectl annotate")
	}
	a.values = map[string]*string{}
	for words = words[2:]; len(words) > 0; words = words[1:] {
		word := words[0]
		key, value, set := strings.Cut(word, "=")
		switch {
		case word == "-n" && len(words) > 1:
			a.namespace, words = words[1], words[1:]
		case word == "--overwrite":
			a.overwrite = true
		case strings.HasPrefix(word, "-"):
			return a, fmt.Errorf("%s is not understood", word)
		case set:
			a.values[key] = &value
		case strings.HasSuffix(word, "-"):
			a.values[strings.TrimSuffix(word, "-")] = nil
		case a.resource == "":
			a.resource = word
		case a.name == "":
			a.name = word
		default:
			return a, fmt.Errorf("%s is neither KEY=VALUE nor KEY-", word)
		}
	}
	if a.resource == "" || a.name == "" || a.namespace == "" || len(a.values) == 0 {
		return a, errors.New("it lacks the resource, its name, -n NAMESPACE or an annotation")
	}
	return a, nil
}

// apply does what kubectl would do.
func (a annotation) apply(ctx context.Context, c *kube.Client) error {
	resource, namespaced, err := c.ResourceNamed(a.resource)
	if err != nil || !namespaced {
		return fmt.Errorf("%s: resource %s: namespaced %v, %w", a.command, a.resource, namespaced, err)
	}
	api := c.In(resource, a.namespace)
	now, err := api.Get(ctx, a.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", a.command, err)
	}
	for key, value := range a.values {
		if old, there := now.GetAnnotations()[key]; there && value != nil && !a.overwrite {
			return fmt.Errorf("%s: without --overwrite kubectl refuses it: %s has the value %s", a.command, key, old)
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": a.values}})
	if err != nil {
		return err
	}
	if _, err = api.Patch(ctx, a.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("%s: %w", a.command, err)
	}
	return nil
}

func TestParseCommands(t *testing.T) {
	list, err := parseCommands("# first\nkubectl annotate service web -n shop a/b='c, d' \\\n  e=\"f\" --overwrite  # for a reason\n\nkubectl annotate secret s -n linkerd x-\n")
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	first, second := list[0], list[1]
	if first.resource != "service" || first.name != "web" || first.namespace != "shop" || !first.overwrite ||
		len(first.values) != 2 || *first.values["a/b"] != "c, d" || *first.values["e"] != "f" {
		t.Errorf("first: %+v", first)
	}
	if value, there := second.values["x"]; second.resource != "secret" || second.overwrite || len(second.values) != 1 || !there || value != nil {
		t.Errorf("second: %+v", second)
	}
	for _, bad := range []string{
		"kubectl get service web -n shop", "annotate service web -n shop a=b", "kubectl annotate service web a=b",
		"kubectl annotate service web -n shop", "kubectl annotate service -n shop a=b", "kubectl annotate service web -n shop a=b --force",
		"kubectl annotate service web -n shop a=b c", "kubectl annotate service web -n shop a='b", "kubectl annotate service web -n shop a=local, any",
		"kubectl annotate service $NAME -n shop a=b", "kubectl annotate service web -n shop a=b; true", "kubectl annotate service web -n",
	} {
		if list, err := parseCommands(bad); err == nil {
			t.Errorf("%s: read as %+v", bad, list)
		}
	}
}
