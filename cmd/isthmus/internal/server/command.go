package server

import (
	"context"

	"isthmus/cmd/isthmus/internal/cli"
)

// Command returns the command that serves.
func Command() cli.Command { return command(new(options)) }

// command returns the command that serves. Its flags store into o.
func command(o *options) cli.Command {
	return cli.Command{
		Use:        "gateway",
		Aliases:    []string{"destination"}, // as in the arguments of a Linkerd install
		Summary:    "serve Linkerd's Destination API over this and all linked clusters",
		Intro:      intro,
		Ending:     ending,
		Flags:      o.sections(),
		Run:        func(ctx context.Context, p cli.Process) error { return run(ctx, p, o) },
		OwnSignals: true,
	}
}

const intro = `isthmus gateway serves Linkerd's Destination API: it watches the cluster it runs
in and every cluster that a link Secret names, merges the endpoints of each
service across them, and streams the result to proxies.

Usage: isthmus gateway [FLAGS]      (alias: isthmus destination)

Flags take one dash or two, and their value after "=" or a space; booleans take
it after "=" only.`

const ending = `Examples:
  As the charts of Linkerd run it, within a cluster:
    isthmus gateway --controller-namespace linkerd --cluster-domain cluster.local \
      --identity-trust-domain cluster.local --enable-ipv6=false \
      --outbound-transport-mode transport-header \
      --default-opaque-ports 25,587,3306,4444,5432,6379,9300,11211
  On your machine, against a cluster of your kubeconfig, to look around:
    isthmus gateway --kubeconfig ~/.kube/config --addr 127.0.0.1:8086 \
      --metrics-addr 127.0.0.1:9996 --log-level debug
    curl -s 127.0.0.1:9996/debug/clusters
    isthmus get web.shop.svc.cluster.local:80 --addr 127.0.0.1:8086

SIGTERM or SIGINT ends it gently, a second one at once.

In a container with a memory limit, GOMEMLIMIT is 90 % of that unless set: rather
than be killed, the gateway then collects garbage more often. GOGC follows what is
in use unless set: 200 with little in use, 15 with much.`
