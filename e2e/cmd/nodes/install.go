//go:build linux

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:embed clients.yaml
var clientsYAML string

// readInstall returns the README's commands for a gateway on its own, after that which makes the image.
func (w *world) readInstall() ([]string, error) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		return nil, err
	}
	_, section, _ := strings.Cut(string(text), "\n## Install\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "\n```")
	lines := strings.Split(block, "\n")
	if len(lines) != 3 || !regexp.MustCompile(`^make image IMAGE=\S+ && docker push`).MatchString(lines[0]) {
		return nil, fmt.Errorf("not the three commands that were expected: %q", lines)
	}
	return lines[1:], nil
}

// install installs the gateway, links the other cluster, and starts clients.
func (w *world) install(ctx context.Context) error {
	commands, err := w.readInstall()
	if err != nil {
		return err
	}
	commands = slices.Insert(commands, 1, "kubectl label namespace linkerd pod-security.kubernetes.io/enforce=restricted")
	commands = append(commands, "kubectl rollout status -n linkerd deployment/isthmus --timeout=5m", "isthmus link east --context east --apply")
	for _, command := range commands {
		w.log("  $ %s", command)
		if _, err := run(ctx, "", "sh", "-ec", command); err != nil {
			return err
		}
	}
	return w.startClients(ctx, "clients", "isthmus.linkerd.svc.cluster.local:8086")
}

// startClients starts clients of the replicas of a Service, and waits until they have what EndpointSlices have.
func (w *world) startClients(ctx context.Context, name, server string) error {
	text := strings.NewReplacer("CLIENTS", name, "SERVER", server).Replace(clientsYAML)
	if _, err := w.kubectl(ctx, text, "west", "apply", "-f", "-"); err != nil {
		return err
	}
	if err := w.rollout(ctx, "west", "shop/"+name); err != nil {
		return err
	}
	w.asked = name
	if err := w.settle(ctx); err != nil {
		return err
	}
	w.log("  %d streams of clients in Pods have what `kubectl get endpointslices` has", len(w.streams))
	return nil
}

// reports asks the clients; with mark they count anew.
func (w *world) reports(ctx context.Context, mark bool) (map[string]Report, error) {
	pods, err := w.clients["west"].CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=" + w.asked})
	if err != nil {
		return nil, err
	}
	all := map[string]Report{}
	for _, pod := range pods.Items {
		url := "http://" + pod.Status.PodIP + ":8080/"
		if mark {
			url += "?mark"
		}
		answer, err := http.Get(url)
		if err != nil {
			return nil, err
		}
		var list []Report
		err = errors.Join(json.NewDecoder(answer.Body).Decode(&list), answer.Body.Close())
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			all[pod.Name+" "+r.Name] = r
		}
	}
	return all, nil
}

// settle waits until all streams are open, and have what kubectl says there is.
func (w *world) settle(ctx context.Context) error {
	return await(ctx, "clients", func() (err error) {
		web := map[string][]string{}
		for cluster := range w.clusters {
			out, err := w.kubectl(ctx, "", cluster, "get", "endpointslices", "-n", "shop", "-l", "kubernetes.io/service-name=web",
				"-o", `jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]}:8080{"\n"}{end}`)
			if err != nil {
				return err
			}
			web[cluster] = strings.Fields(out)
		}
		both := slices.Sorted(slices.Values(slices.Concat(web["west"], web["east"])))
		slices.Sort(web["west"])
		if w.streams, err = w.reports(ctx, false); err != nil {
			return err
		}
		for name, r := range w.streams {
			want := web["west"]
			if strings.Contains(name, "federated") {
				want = both
			}
			slices.Sort(r.Addrs)
			if !r.Open {
				return fmt.Errorf("%s is not open", name)
			}
			if strings.Contains(name, " Get ") && !slices.Equal(r.Addrs, want) {
				return fmt.Errorf("%s has %q; EndpointSlices have %q", name, r.Addrs, want)
			}
		}
		return nil
	})
}
