package scripts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// programs are the calls that the scripts make, and those only: another one is an error.
var programs = map[string][]known{
	"docker": {
		{"info", nothing},
		{"version --format {{.Server.Os}}/{{.Server.Arch}}", func(s standIn, _ []string) error { return printLines("", []string{"linux/arm64"}) }},
		{"network ls --format {{.Name}}", func(s standIn, _ []string) error { return printLines("", append(s.list("networks"), "bridge")) }},
		{"network create *", func(s standIn, a []string) error { return s.write("", "networks", a[0]) }},
		{"network rm *", func(s standIn, a []string) error {
			if clusters := s.list("clusters"); slices.ContainsFunc(clusters, func(c string) bool { return strings.HasPrefix(c, "isthmus-") }) {
				return fmt.Errorf("network %s has active endpoints: %v", a[0], clusters)
			}
			return os.Remove(s.path("networks", a[0]))
		}},
		{"image ls --format {{.Repository}}:{{.Tag}}", func(s standIn, _ []string) error { return printLines("", s.list("images")) }},
		{"image rm *", func(s standIn, a []string) error { return os.Remove(s.path("images", a[0])) }},
		{"container inspect --format * *", func(s standIn, a []string) error {
			if a[0] != `{{(index .NetworkSettings.Networks "isthmus-demo").IPAddress}}` {
				return fmt.Errorf("format %s", a[0])
			}
			name, err := s.nodeOf(a[1])
			if err == nil {
				fmt.Println(s.read("clusters", name))
			}
			return err
		}},
		{"exec * ip route replace * via *", func(s standIn, a []string) error {
			name, err := s.nodeOf(a[0])
			if err != nil {
				return err
			}
			return s.write(a[2], "routes", name, a[1])
		}},
		{"kill *", func(s standIn, a []string) error {
			name, err := s.nodeOf(a[0])
			if err != nil {
				return err
			}
			return errors.Join(s.write("", "clusters", name), os.RemoveAll(s.path("routes", name)))
		}},
	},
	"k3d": {
		{"cluster list --no-headers", func(s standIn, _ []string) error { return printLines("   1/1   0/0   false", s.list("clusters")) }},
		{"cluster create --config *", func(s standIn, a []string) error {
			config, err := readConfig(a[0])
			if err != nil {
				return err
			}
			return s.makeCluster(config.Metadata.Name)
		}},
		{"cluster start *", func(s standIn, a []string) error {
			if err := contains(s.list("clusters"), a[0]); err != nil || s.read("clusters", a[0]) != "" {
				return err
			}
			return s.startCluster(a[0])
		}},
		{"cluster delete *", func(s standIn, a []string) error {
			return errors.Join(os.Remove(s.path("clusters", a[0])), os.RemoveAll(s.path("routes", a[0])))
		}},
		{"kubeconfig get *", func(s standIn, a []string) error {
			fmt.Printf("context k3d-%s\n", a[0])
			return contains(s.list("clusters"), a[0])
		}},
		{"image import * --cluster *", func(s standIn, a []string) error {
			return errors.Join(contains(s.list("images"), a[0]), contains(s.list("clusters"), a[1]))
		}},
	},
	"step": {
		{"certificate create root.linkerd.cluster.local * * --profile root-ca --no-password --insecure --force", makeCertificate},
		{"certificate create identity.linkerd.cluster.local * * --profile intermediate-ca --not-after 8760h --no-password --insecure --force --ca * --ca-key *", func(s standIn, a []string) error {
			return errors.Join(readable(a[2:]...), makeCertificate(s, a))
		}},
	},
	"linkerd": {
		{"install --context * --ignore-cluster --crds --set installGatewayAPI=true", func(s standIn, a []string) error {
			fmt.Println("{apiVersion: v1, kind: ConfigMap, metadata: {name: definitions}}")
			_, err := s.inContext(a[0])
			return err
		}},
		{"install --context * --ignore-cluster --identity-trust-anchors-file * --identity-issuer-certificate-file * --identity-issuer-key-file *", func(s standIn, a []string) error {
			text, err := os.ReadFile(s.path("destination.yaml"))
			fmt.Print(string(text))
			_, failed := s.inContext(a[0])
			return errors.Join(err, failed, readable(a[1:]...))
		}},
	},
	"make": {{"-C * build image IMAGE=isthmus:demo PLATFORMS=linux/arm64", func(s standIn, a []string) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		bin := filepath.Join(a[0], "bin", "isthmus")
		if err := errors.Join(os.MkdirAll(filepath.Dir(bin), 0o755), os.RemoveAll(bin)); err != nil {
			return err
		}
		return errors.Join(os.Symlink(self, bin), s.write("", "images", "isthmus:demo"))
	}}},
	"go":    {},
	"sleep": {{"1", nothing}},
	"kubectl": {
		{"kustomize *", func(_ standIn, a []string) error {
			text, err := kustomize(a[0])
			fmt.Print(text)
			return err
		}},
		{"--context * --request-timeout=10s get --raw /readyz", inCluster},
		{"--context * --request-timeout=10s apply --server-side --force-conflicts -f *", applyFile},
		{"--context * --request-timeout=10s apply -f *", applyFile},
		{"--context * --request-timeout=10s apply -k *", func(s standIn, a []string) error {
			_, err := kustomize(a[1])
			return errors.Join(err, inCluster(s, a))
		}},
		{"--context * --request-timeout=10s -n * rollout status deployment --timeout=5s", inCluster},
		{"--context * --request-timeout=10s -n linkerd rollout status deployment/linkerd-destination --timeout=5s", inCluster},
		{`--context * --request-timeout=10s -n linkerd get deployment linkerd-destination -o jsonpath={.spec.template.spec.containers[?(@.name=="destination")].image}`, func(s standIn, a []string) error {
			cluster, err := s.inContext(a[0])
			fmt.Print(s.read("destination", cluster))
			return err
		}},
		{"--context * --request-timeout=10s -n shop logs deployment/client -c client --since=5s", func(s standIn, a []string) error {
			for _, name := range s.list("clusters") {
				if s.read("clusters", name) != "" {
					fmt.Printf("k3d-%s-server-0\n", name)
				}
			}
			return inCluster(s, a)
		}},
	},
	"isthmus": {
		{"link * --context * --to-context * --server * --address-ranges * --apply", func(s standIn, a []string) error {
			_, err := s.inContext(a[1])
			to, failed := s.inContext(a[2])
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			address := s.read("clusters", "isthmus-"+a[0])
			if a[3] != "https://"+address+":6443" {
				return fmt.Errorf("%s is not the address of %s, %s", a[3], a[0], address)
			}
			if image := s.read("destination", to); image != "isthmus:demo" {
				return fmt.Errorf("%s has no gateway, but %q", to, image)
			}
			return errors.Join(s.reached(to, a[0], a[4]), s.write(address, "links", a[0]))
		}},
		{"clusters --context *", func(s standIn, a []string) error {
			if err := inCluster(s, a); err != nil {
				return err
			}
			table, well := s.states()
			fmt.Print(table)
			if !well {
				return errNotWell
			}
			return nil
		}},
		{"get web-federated.shop.svc.cluster.local:80 --once --context *", inCluster},
	},
}

func nothing(standIn, []string) error { return nil }

func inCluster(s standIn, a []string) error {
	_, err := s.inContext(a[0])
	return err
}

func printLines(after string, names []string) error {
	for _, name := range names {
		fmt.Println(name + after)
	}
	return nil
}

func makeCertificate(_ standIn, a []string) error {
	return errors.Join(os.WriteFile(a[0], []byte("certificate"), 0o600), os.WriteFile(a[1], []byte("key"), 0o600))
}

func readable(files ...string) (err error) {
	for _, f := range files {
		_, failed := os.ReadFile(f)
		err = errors.Join(err, failed)
	}
	return err
}

// applyFile remembers the image of Linkerd's destination container.
func applyFile(s standIn, a []string) error {
	cluster, err := s.inContext(a[0])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(a[1])
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var o struct {
			Metadata struct{ Name string }
			Kind     string
			Spec     struct {
				Template struct {
					Spec struct {
						Containers []struct{ Name, Image string }
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return fmt.Errorf("%s: %w", a[1], err)
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			if o.Kind == "Deployment" && c.Name == "destination" {
				err = s.write(c.Image, "destination", cluster)
			}
		}
	}
	return err
}
