package commands

import (
	"context"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"isthmus/cmd/isthmus/internal/cli"
)

func getCommand() cli.Command {
	return streamCommand(cli.Command{
		Use:     "get AUTHORITY",
		Such:    "web.shop.svc.cluster.local:80",
		Summary: "show the endpoints of a service as a proxy would get them, live",
		Intro:   getIntro,
		Ending:  getEnding,
	}, session[pb.Update]{state: &getState{}, open: openGet, meanings: codeMeanings{
		codes.InvalidArgument:    "This authority can never work: it is not a service name of the gateway's cluster domain, or it names an ExternalName service. A proxy does not ask again.",
		codes.FailedPrecondition: "The Service is a mirror whose label multicluster.linkerd.io/remote-service does not name the remote Service. A proxy does not ask again.",
		codes.NotFound:           "There is no such Service in the gateway's cluster, or it mirrors a cluster that is not linked. A proxy asks again, with a backoff.",
		codes.Unavailable:        "the gateway has not read any of the clusters that the service is in",
	}})
}

// openGet opens a Get stream, and asks the gateway to explain which tier each endpoint
// belongs to. Other servers ignore that.
func openGet(c pb.DestinationClient, ctx context.Context, q *pb.GetDestination, opts ...grpc.CallOption) (grpc.ServerStreamingClient[pb.Update], error) {
	return c.Get(metadata.AppendToOutgoingContext(ctx, "isthmus-explain", "tiers"), q, opts...)
}

const getIntro = `isthmus get shows the endpoints of a service as a proxy would get them, live:
it opens a Get stream, applies its messages as a proxy does, and prints the
endpoints after each change. Ctrl-C ends it.

Usage: isthmus get AUTHORITY [FLAGS]

AUTHORITY is what an application dials: SERVICE.NAMESPACE.svc.DOMAIN:PORT, or
INSTANCE.SERVICE.NAMESPACE.svc.DOMAIN:PORT; port 80 may be left out.`

const getEnding = `The table:
  CLUSTER   label target_cluster; "local" without it (a gateway that runs with
            --target-cluster-label=false never sends it)
  ZONE      the endpoint's, and whether the client's is the same
  TIER      the tier of the service's preference that the endpoint belongs to;
            "-" if there is none, or if the server is not an Isthmus gateway
  STANDING  of the endpoint's cluster; left out while all are in-service
  HINTS     h2 or opaque: the protocol; via:PORT: through the proxy's inbound
            port; authority:NAME: the authority to use instead
  IDENTITY  that the peer's TLS certificate must have

-o json prints one object a line for each state: go doc
isthmus/internal/adminapi.GetOutput explains its fields. Each endpoint has, as "sent",
the WeightedAddr of linkerd2-proxy-api as protobuf has it in JSON. Tier and standing
are among its labels, as isthmus_tier and isthmus_standing, for this client only:
proxies are not sent them.

Exit code 1 if the stream ends, with what its status means.

Examples:
  isthmus get web.shop.svc.cluster.local:80
  isthmus get web.shop.svc.cluster.local:80 --once -o json \
    --addr 127.0.0.1:8086 --token '{"ns":"shop","nodeName":"node-1"}'`
