package commands

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"isthmus/cmd/isthmus/internal/cli"
)

const postRenderIntro = "" +
	`Reads the objects of Linkerd's chart, as Helm renders them, from standard input, and prints them
with the gateway in the place of Linkerd's destination controller: with another image in the
container destination of the Deployment linkerd-destination. All other objects stay byte for byte;
arguments, rights, ports and limits are the chart's.

Usage: isthmus post-render --image IMAGE < RENDERED`

const postRenderEnding = `Examples:
  isthmus post-render --image registry.example.com/isthmus:v1 < linkerd.yaml | kubectl apply -f -
  helm upgrade linkerd-control-plane linkerd-edge/linkerd-control-plane -n linkerd --reuse-values \
    --post-renderer isthmus --post-renderer-args post-render \
    --post-renderer-args --image=registry.example.com/isthmus:v1        # Helm 3

For Helm 4, where post-renderers are plugins, docs/install.md has the one that runs this verb.`

var imageName = regexp.MustCompile(`^([\w.-]+(:\d+)?/)?[a-z\d._/-]+` +
	`(:\w[\w.-]{0,127}|(:\w[\w.-]{0,127})?@sha256:[\da-f]{64})$`)

// PostRender returns the command "post-render", which Helm or a shell pipeline runs.
func PostRender() cli.Command {
	var image string
	return cli.Command{
		Use:     "post-render",
		Summary: "replace Linkerd's destination controller with Isthmus in Linkerd's rendered chart",
		Intro:   postRenderIntro,
		Ending:  postRenderEnding,
		Flags: []cli.Section{cli.NewSection("Flags", func(s *pflag.FlagSet) {
			s.StringVar(&image, "image", "", "`IMAGE` of Isthmus, with :TAG or @sha256:DIGEST.")
		})},
		Run: func(_ context.Context, p cli.Process) error { return runPostRender(p, image) },
	}
}

func runPostRender(p cli.Process, image string) error {
	if !imageName.MatchString(image) {
		return cli.Usagef("--image=%q is not an image name with a tag or digest: specify the Isthmus image, "+
			"such as registry.example.com/isthmus:v1", image)
	}
	if p.Stdin == nil || p.Interactive {
		return cli.Usagef("standard input is empty: " +
			"pipe the output of \"helm template\" for Linkerd's chart into this command")
	}
	text, err := postRender(p.Stdin, image)
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(text)
	return err
}

// postRender replaces the image of Linkerd's destination container in the objects that it reads.
func postRender(from io.Reader, image string) ([]byte, error) {
	var out bytes.Buffer
	found := 0
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(from)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		object := make(map[string]any)
		if err := yaml.Unmarshal(text, &object); err != nil {
			return nil, fmt.Errorf("standard input is not the output of Helm: %w", err)
		}
		if setImage(object, image) {
			found++
			text, err = yaml.Marshal(object)
			if err != nil {
				return nil, err
			}
		}
		out.WriteString("---\n")
		out.Write(text)
		if !bytes.HasSuffix(text, []byte("\n")) {
			out.WriteString("\n")
		}
	}
	if found != 1 {
		return nil, fmt.Errorf(
			"standard input contains %d Deployments named linkerd-destination with a container named destination: "+
				"use the rendered chart of Linkerd's control plane, which contains exactly one such Deployment", found)
	}
	return out.Bytes(), nil
}

func setImage(object map[string]any, image string) bool {
	o := unstructured.Unstructured{Object: object}
	deployment := appsv1.SchemeGroupVersion.WithKind("Deployment")
	if o.GroupVersionKind() != deployment || o.GetName() != "linkerd-destination" {
		return false
	}
	containers, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "template", "spec", "containers")
	list, _ := containers.([]any)
	for _, c := range list {
		if c, _ := c.(map[string]any); c["name"] == "destination" {
			c["image"] = image
			return true
		}
	}
	return false
}
