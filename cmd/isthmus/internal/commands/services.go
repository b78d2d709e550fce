package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

func servicesCommand() cli.Command {
	o := new(Target)
	return o.command(cli.Command{
		Use:     "services [NAME…]",
		Summary: "show services: their members, endpoints by cluster, streams, tiers in use, problems",
		Intro:   servicesIntro,
		Ending:  servicesEnding,
		Run:     func(ctx context.Context, p cli.Process) error { return runServices(ctx, p, o) },
	}, func(s *pflag.FlagSet) { o.pageFlags(s, pageTimeout, pageAllowed) })
}

// runServices shows the page of services, or some of it.
func runServices(ctx context.Context, p cli.Process, o *Target) error {
	var names []serviceName
	for _, arg := range p.Args {
		name, ok := parseServiceName(arg)
		if !ok {
			return cli.Usagef("%q is no service's name: give NAME, NAMESPACE/NAME or NAME.NAMESPACE", arg)
		}
		names = append(names, name)
	}
	shown, others, err := readEach(ctx, p, o, "/debug/services", func(page *[]adminapi.Service) facts {
		list, _ := chosen(*page, names)
		return serviceFacts(list)
	})
	if err != nil {
		return err
	}
	list, missing := chosen(*shown.Value, names)
	page := &adminapi.ServicesOutput{
		Time: shown.At, Gateway: shown.Replica, Services: list, Others: others, Unchecked: shown.Unchecked(p.Build),
	}
	err = o.screen(p).show(page.Time, page.Gateway, page, func() (string, []byte) { return servicesTable(page, len(names) > 0) })
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("not on %s: %s\n  There are services that are federated or mirrored, that proxies watch, or that have problems; isthmus get shows any", shown.Replica, strings.Join(missing, ", "))
	}
	return nil
}

// serviceName is how a user names a service.
type serviceName struct{ typed, namespace, name string } // no namespace: any

// parseServiceName takes NAME, NAMESPACE/NAME, NAME.NAMESPACE, and what applications
// dial: [INSTANCE.]NAME.NAMESPACE.svc.DOMAIN[:PORT].
func parseServiceName(typed string) (serviceName, bool) {
	n := serviceName{typed: typed}
	dialled, _, _ := strings.Cut(typed, ":")
	if namespace, name, ok := strings.Cut(dialled, "/"); ok {
		n.namespace, n.name = namespace, name
		return n, namespace != "" && name != "" && !strings.Contains(name, "/")
	}
	labels := strings.Split(dialled, ".")
	if i := slices.Index(labels, "svc"); i >= 2 {
		labels = labels[i-2 : i]
	}
	n.name = labels[0]
	if len(labels) > 1 {
		n.namespace = labels[1]
	}
	return n, len(labels) <= 2 && !slices.Contains(labels, "")
}

// is reports whether a service, as the page writes it, has this name.
func (n serviceName) is(service string) bool {
	namespace, name, _ := strings.Cut(service, "/")
	return name == n.name && (n.namespace == "" || n.namespace == namespace)
}

// chosen returns the services that have one of these names, all if there are none, and the names that there is no service for.
func chosen(all []adminapi.Service, names []serviceName) (list []adminapi.Service, missing []string) {
	if len(names) == 0 {
		return append([]adminapi.Service{}, all...), nil
	}
	list = []adminapi.Service{}
	for _, e := range all {
		if slices.ContainsFunc(names, func(n serviceName) bool { return n.is(e.Service) }) {
			list = append(list, e)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(list, func(e adminapi.Service) bool { return n.is(e.Service) }) {
			missing = append(missing, Printable(n.typed))
		}
	}
	return list, missing
}

const servicesIntro = `isthmus services shows the services of a gateway that are federated or mirrored, that
proxies watch, or that have problems; with NAMEs those only, in full.

Usage: isthmus services [NAME…] [FLAGS]

NAME is NAME, of any namespace, NAMESPACE/NAME, NAME.NAMESPACE, or what applications
dial: NAME.NAMESPACE.svc.DOMAIN:PORT.`

const servicesEnding = `The table:
  KIND        import (the Service of a ServiceImport), federated, mirror (of a Service of
              another cluster), or plain
  MEMBERS     the clusters whose Services it is made of
  ENDPOINTS   how many ready ones each member offers to a port that proxies watch
  STREAMS     how many streams of proxies follow it
  TIERS       those of its preference that its clients use; "|" is between those of
              clients in different zones
  PROBLEMS    how many there are; they follow in words
Of services that are named there is, if they have a preference, a table of their
clients:
  IN USE      the tiers that these clients use, and AVAILABLE those that there are, with
              how many endpoints are ready
  WHY         those in use are
  RETURN      what fewer tiers wait for, or when endpoints leave next

Of several gateways the first that answers is shown, and where the others differ from
it: in services, their members, and the endpoints of ports that proxies of both watch.

-o json prints one object in a line: go doc isthmus/internal/adminapi.ServicesOutput
explains its fields.

Exit code 1 if no gateway can be asked, or the first does not have a service that is
named.

Examples:
  isthmus services
  isthmus services shop/web-federated --context west
  isthmus services -o json | jq -r '.services[] | select(.problems) | .service'`
