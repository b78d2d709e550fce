package check

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"isthmus/internal/adminapi"
)

// clusterCheck is the checks of one cluster's API server.
type clusterCheck struct {
	*report
	adminapi.Cluster
	local             bool
	fromHere, exports bool // see Seen
	imports           bool // ServiceExports of linked clusters are read
	now               time.Time

	why string // why nothing more can be judged, if that is so
}

func newClusterCheck(r *report, c adminapi.Cluster, now time.Time) *clusterCheck {
	if c.API == nil {
		c.API = new(adminapi.APIServer)
	}
	return &clusterCheck{report: r, Cluster: c, now: now}
}

// What a clock may be off. Tokens and certificates are refused by clocks that differ by
// minutes; a few seconds are within what can be seen.
const (
	skewWarning = 30 * time.Second
	skewFailure = 5 * time.Minute
)

// checkServer reports whether the API server answers.
func (l *clusterCheck) checkServer() {
	add, s := l.about(sectionAPI, API, l.Cluster.Cluster), l.API
	if s.Answered.IsZero() {
		l.why = "its API server does not answer"
	}
	const credentials = "check what the kubeconfig's server is, and whether its credentials are still good"
	failing := slices.IndexFunc(s.Refused, func(r adminapi.RefusedRequest) bool { return l.isFailure(r.Status) })
	switch {
	case s.ClientCertificate != "":
		add(Failure, "the API server refuses the client certificate: "+s.ClientCertificate, l.hintOfServer("give the gateway one that is good, by an authority that the API server trusts"))
	case s.Error != "":
		text, hint := s.Error, "check the address and the network between the two"
		if s.Certificate != "" {
			text, hint = "its certificate is not good: "+s.Certificate, "check that the address is the API server's, and by which name its certificate is good"
		}
		if s.OtherAuthority {
			hint = "correct the certificate authority of the kubeconfig, or the address if it is not the API server's"
		}
		add(Failure, "its API server can't be reached: "+text, l.hintOfServer(hint))
	case s.Answered.IsZero():
		l.why = "its API server has not been asked yet"
		add(Unchecked, l.why, "")
	case s.VersionError != "":
		l.why = "its API server answers with an error"
		add(Failure, s.VersionError, l.hintOfServer(credentials))
	case failing >= 0:
		l.why = "its API server answers with an error"
		r := s.Refused[failing]
		add(Failure, fmt.Sprintf("the API server answers %d %s to %s %s", r.Status, http.StatusText(r.Status), r.Verb, r.Resource), l.hintOfServer(credentials))
	case s.Version == "":
		add(OK, "its API server answers", "")
	default:
		add(OK, "its API server answers, version "+s.Version, "")
	}
}

// isFailure reports whether an answer means that the API server is no good, and not just one resource.
func (l *clusterCheck) isFailure(status int) bool {
	follows := l.State == adminapi.Ready || l.State == adminapi.Pending || l.State == ""
	return status == http.StatusUnauthorized || status >= 500 && !follows
}

func (l *clusterCheck) unauthorized() bool {
	return slices.ContainsFunc(l.API.Refused, func(r adminapi.RefusedRequest) bool { return r.Status == http.StatusUnauthorized })
}

func (l *clusterCheck) hintOfServer(hint string) string {
	if l.local {
		return hint + "; see --kubeconfig"
	}
	return hint + "; to renew the link: isthmus link " + l.Cluster.Cluster + " --context CONTEXT --apply"
}

// checkClock compares clocks.
func (l *clusterCheck) checkClock() {
	add, c := l.about(sectionAPI, ClockSkew, l.Cluster.Cluster), l.API.Clock
	switch {
	case c == nil && l.API.Answered.IsZero():
		add(Unchecked, l.why, "")
		return
	case c == nil:
		add(Unchecked, "its API server sends no Date", "")
		return
	}
	off, way := time.Duration(c.Ahead*float64(time.Second)), "ahead"
	if off < 0 {
		off, way = -off, "behind"
	}
	text := fmt.Sprintf("its clock is %s %s", roughly(off), way)
	const hint = "synchronize the clocks of both clusters' nodes (NTP): tokens and certificates are good or not by them"
	switch {
	case off >= skewFailure:
		add(Failure, text, hint)
	case off >= skewWarning:
		add(Warning, text, hint)
	case off.Seconds() < c.Within+1:
		add(OK, "its clock agrees", "")
	default:
		add(OK, text, "")
	}
}

// kinds are the custom resources that a gateway reads of its own cluster.
var kinds = []string{"serviceprofiles.linkerd.io", "servers.policy.linkerd.io", "externalworkloads.workload.linkerd.io"}

// checkKinds reports which custom resources the own cluster does not have.
func (l *clusterCheck) checkKinds() {
	add := l.about(sectionAPI, CRDs, l.Cluster.Cluster)
	var absent, unknown []string
	for _, k := range kinds {
		refused := slices.DeleteFunc(slices.Clone(l.API.Refused), func(r adminapi.RefusedRequest) bool { return r.Resource != k })
		switch {
		case slices.ContainsFunc(refused, func(r adminapi.RefusedRequest) bool { return r.Status == http.StatusNotFound }):
			absent = append(absent, k)
		case slices.ContainsFunc(refused, func(r adminapi.RefusedRequest) bool { return r.Status != http.StatusForbidden || !l.fromHere }):
			// Also if a gateway may not read it: then it may be there or not. From here it is asked for by itself.
			unknown = append(unknown, k)
		}
	}
	switch {
	case len(absent) > 0:
		add(Warning, "not installed: "+strings.Join(absent, ", "), "install Linkerd's CRDs: linkerd install --crds | kubectl apply -f -")
	case len(unknown) > 0:
		add(Unchecked, "the API server does not show whether it has "+strings.Join(unknown, ", "), "")
	default:
		add(OK, "Linkerd's CRDs are installed", "")
	}
}
