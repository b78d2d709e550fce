package main

import (
	"context"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/codes"
)

func getFlags(o *followOptions) *flags { return followFlags(o, "get", getIntro, getExamples) }

const getIntro = `isthmus get shows what a proxy would be told about a service, live: it opens a
Get stream, folds its messages as a proxy does, and prints the state after each
change. Ctrl-C ends it.

Usage: isthmus get AUTHORITY [FLAGS]

AUTHORITY is what an application dials: SERVICE.NAMESPACE.svc.DOMAIN:PORT, or
INSTANCE.SERVICE.NAMESPACE.svc.DOMAIN:PORT; port 80 may be left out.`

const getExamples = `The table:
  CLUSTER   label target_cluster; "local" without it (a gateway that runs with
            --target-cluster-label=false never sends it)
  ZONE      the endpoint's, and whether the client's is the same
  HINTS     h2 or opaque: the protocol; via:PORT: through the proxy's inbound
            port; authority:NAME: the authority to use instead
  IDENTITY  that the peer's TLS certificate must have

-o json prints one object a line for each state:
  {"time":…, "authority":…, "exists":BOOL, "endpoints":[{"address":"IP:PORT",
   "weight":N, "labels":{…}, "identity":{"dns"|"uri":…, "serverName":…},
   "protocol":"h2"|"opaque", "inboundPort":N, "authority":…, "http2":{…}}]}
What is not said is left out; labels are those a proxy ends up with.

Exit code 1 if the stream ends, with what its status means.

Examples:
  isthmus get web.shop.svc.cluster.local:80
  isthmus get web.shop.svc.cluster.local:80 --once -o json \
    --addr 127.0.0.1:8086 --token '{"ns":"shop","nodeName":"node-1"}'`

// getVerb prints what a Get stream says until it ends, or p has a signal.
func getVerb(ctx context.Context, p process, args []string) error {
	var o followOptions
	authority, err := o.parse(getFlags(&o), p, args)
	if authority == "" || err != nil {
		return err
	}
	s := session[pb.Update]{o, "get", &fold{}, pb.DestinationClient.Get, meanings{
		codes.InvalidArgument:    "This authority can never work: it is no service name of the gateway's cluster domain, or an ExternalName service. A proxy does not ask again.",
		codes.FailedPrecondition: "The Service is a mirror that does not say of which remote Service. A proxy does not ask again.",
		codes.NotFound:           "There is no such Service in the gateway's cluster, or it mirrors a cluster that is not linked. A proxy asks again, with a backoff.",
		codes.Unavailable:        unavailable(o.addr, "nothing is known of any cluster that the service is in"),
	}}
	return s.follow(ctx, p, authority)
}
