package commands

import (
	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/codes"

	"isthmus/cmd/isthmus/internal/cli"
)

func profileCommand() cli.Command {
	return streamCommand(cli.Command{
		Use:     "profile AUTHORITY",
		Such:    "web.shop.svc.cluster.local:80",
		Summary: "show the protocol, routes and retries of a destination as a proxy would get them, live",
		Intro:   profileIntro,
		Ending:  profileEnding,
	}, session[pb.DestinationProfile]{state: &profileState{}, open: pb.DestinationClient.GetProfile, meanings: codeMeanings{
		codes.InvalidArgument: "This authority can never work: " +
			"it is neither an IP address nor a service name of the gateway's cluster domain, " +
			"or it names an ExternalName service. A proxy does not ask again.",
		codes.FailedPrecondition: "Several objects claim this address. " +
			"Only gateways of older versions end the stream so. A proxy does not ask again.",
		codes.Unavailable: "several objects claim this address " +
			"(isthmus check names them if they do so for long)",
		codes.NotFound: "There is no such Service in the gateway's cluster, " +
			"or none of its endpoints has that hostname. A proxy asks again, with a backoff.",
	}})
}

const profileIntro = `isthmus profile shows the protocol, routes and retries of a destination as a
proxy would get them, live: it opens a GetProfile stream and prints the profile
after each change. Ctrl-C ends it.

Usage: isthmus profile AUTHORITY [FLAGS]

AUTHORITY is where an application connects to: IP:PORT, [IPv6]:PORT,
SERVICE.NAMESPACE.svc.DOMAIN:PORT, or INSTANCE.SERVICE.NAMESPACE.svc.DOMAIN:PORT;
port 80 may be left out. A Service, or one of its cluster IPs, has routes and
retries, from its ServiceProfile; any other address is one endpoint.`

const profileEnding = `What is shown:
  opaque     whether the protocol is not detected: a TCP connection
  retries    the retry budget: how many requests may be retries
  service    the Service, and the port that was asked for
  profile    the ServiceProfile; none: there is none, and defaults apply
  overrides  where requests go instead, with weights
  ROUTE      a request belongs to the first route whose CONDITION it meets, and
             its response to the first of the RESPONSES that it meets
  endpoint, labels, identity, hints
             of an address that is no Service's, as isthmus get shows them
"no profile" is the answer for a port that the Service does not declare, and for a
Service that has been deleted.

-o json prints one object a line for each profile: go doc
isthmus/internal/adminapi.ProfileOutput explains its fields. It has, as "sent", the
DestinationProfile of linkerd2-proxy-api as protobuf has it in JSON.

Exit code 1 if the stream ends, with what its status means.

Examples:
  isthmus profile web.shop.svc.cluster.local:80
  isthmus profile 10.0.0.1:8080 --once -o json
  isthmus profile web.shop.svc.cluster.local:80 --addr 127.0.0.1:8086 \
    --token '{"ns":"client-ns"}'    # with the ServiceProfiles of client-ns`
