package commands

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"isthmus/cmd/isthmus/internal/cli"
)

const linkerdRendered = `# Source: linkerd-control-plane/templates/namespace.yaml
kind: Namespace
apiVersion: v1
metadata:
  name: linkerd # as it is
  annotations:
    text: |+
      ends with an empty line

---
apiVersion: apps/v1
kind: Deployment
metadata: {name: linkerd-destination}
spec:
  template:
    spec:
      containers:
      - {name: linkerd-proxy, image: proxy:v2}
      - {name: destination, image: controller:v2, args: [destination]}
`

// callPostRender runs isthmus post-render and returns its exit code and output.
func callPostRender(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	program := cli.Program{Name: "isthmus", Groups: []cli.Group{{Commands: []cli.Command{PostRender()}}}}
	code = program.Run(context.Background(), cli.Process{
		Args:   append([]string{"post-render"}, args...),
		Stdin:  strings.NewReader(stdin),
		Stdout: &out,
		Stderr: &errs,
	})
	return code, out.String(), errs.String()
}

// TestPostRender checks that only the image changes, and that other objects stay byte for byte.
func TestPostRender(t *testing.T) {
	code, out, err := callPostRender(linkerdRendered, "--image", "registry.example.com:5000/isthmus:v1")
	if code != 0 {
		t.Fatalf("exit code %d, %s", code, err)
	}
	before, after, _ := strings.Cut(out, "\n---\n")
	if want, _, _ := strings.Cut(linkerdRendered, "\n---\n"); before != "---\n"+want {
		t.Errorf("the first object is\n%s", before)
	}
	for _, line := range []string{"image: registry.example.com:5000/isthmus:v1", "image: proxy:v2", "- destination"} {
		if strings.Count(after, line) != 1 {
			t.Errorf("the line %q does not occur once in\n%s", line, after)
		}
	}
}

// TestPostRenderRefuses checks that invalid input yields no objects, so that Helm applies none.
func TestPostRenderRefuses(t *testing.T) {
	for _, c := range []struct {
		image, input string
		code         int
		want         string
	}{
		{"", linkerdRendered, 2, "is not an image name with a tag or digest"},
		{"registry.example.com:5000/isthmus", linkerdRendered, 2, "is not an image name with a tag or digest"},
		{"registry.example.com/isthmus:", linkerdRendered, 2, "is not an image name with a tag or digest"},
		{"isthmus@sha256:12", linkerdRendered, 2, "is not an image name with a tag or digest"},
		{"isthmus:v1", "kind: Namespace\n", 1, "contains 0 Deployments named linkerd-destination"},
		{
			"isthmus:v1", linkerdRendered + "---\n" + linkerdRendered, 1,
			"contains 2 Deployments named linkerd-destination",
		},
		{"isthmus:v1", "Error: {", 1, "is not the output of Helm"},
		{
			"isthmus:v1",
			strings.Replace(linkerdRendered, "name: destination", "name: policy", 1),
			1,
			"contains 0 Deployments",
		},
	} {
		code, out, err := callPostRender(c.input, "--image", c.image)
		if code != c.code || out != "" || !strings.Contains(err, c.want) {
			t.Errorf("%s: exit code %d, prints %q and %q; want %d, %q", c.image, code, out, err, c.code, c.want)
		}
	}
}
