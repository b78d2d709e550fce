package main

import (
	"context"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/codes"
)

func profileFlags(o *followOptions) *flags {
	return followFlags(o, "profile", profileIntro, profileExamples)
}

const profileIntro = `isthmus profile shows what a proxy would be told about a destination, live: it
opens a GetProfile stream and prints the profile after each change. Ctrl-C ends
it.

Usage: isthmus profile AUTHORITY [FLAGS]

AUTHORITY is where an application connects to: IP:PORT, [IPv6]:PORT,
SERVICE.NAMESPACE.svc.DOMAIN:PORT, or INSTANCE.SERVICE.NAMESPACE.svc.DOMAIN:PORT;
port 80 may be left out. A Service, or one of its cluster IPs, has routes and
retries, from its ServiceProfile; any other address is one endpoint.`

const profileExamples = `What is shown:
  opaque     whether the protocol is not detected: a TCP connection
  retries    the retry budget: how many requests may be retries
  service    the Service, and the port that was asked for
  profile    the ServiceProfile; none: there is none, and the default counts
  overrides  where requests go instead, with weights
  ROUTE      the first whose CONDITION a request meets counts; RESPONSES are the
             classes of its responses, of which again the first counts
  endpoint, labels, identity, hints
             of an address that is no Service's, as isthmus get shows them
"no profile" is what a proxy is told of a port that the Service does not declare,
and of a Service that has gone.

-o json prints one object a line for each profile:
  {"time":…, "authority":…, "name":…, "opaque":BOOL, "routes":[{"name":…,
   "condition":…, "responses":[{"condition":…, "failure":BOOL}],
   "retryable":BOOL, "timeout":…}], "retryBudget":{"ratio":N,
   "minPerSecond":N, "ttl":…}, "overrides":[{"authority":…, "weight":N}],
   "service":{"name":…, "namespace":…, "port":N}, "profile":{"name":…,
   "namespace":…}, "endpoint":{as of isthmus get}}
What is not said is left out.

Exit code 1 if the stream ends, with what its status means.

Examples:
  isthmus profile web.shop.svc.cluster.local:80
  isthmus profile 10.0.0.1:8080 --once -o json
  isthmus profile web.shop.svc.cluster.local:80 --addr 127.0.0.1:8086 \
    --token '{"ns":"client-ns"}'    # with the ServiceProfiles of client-ns`

// profileVerb prints what a GetProfile stream says until it ends, or p has a
// signal.
func profileVerb(ctx context.Context, p process, args []string) error {
	var o followOptions
	authority, err := o.parse(profileFlags(&o), p, args)
	if authority == "" || err != nil {
		return err
	}
	s := session[pb.DestinationProfile]{o, "profile", &profile{}, pb.DestinationClient.GetProfile, meanings{
		codes.InvalidArgument:    "This authority can never work: it is neither an IP address nor a service name of the gateway's cluster domain, or an ExternalName service. A proxy does not ask again.",
		codes.FailedPrecondition: "It is not known who has this address: several claim it. A proxy does not ask again.",
		codes.NotFound:           "There is no such Service in the gateway's cluster, or none of its endpoints has that hostname. A proxy asks again, with a backoff.",
	}}
	return s.follow(ctx, p, authority)
}
