package check

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

type clusterCheck struct {
	*report
	adminapi.Cluster
	local             bool
	fromHere, exports bool // see Input
	imports           bool // whether Isthmus imports ServiceExports of linked clusters
	now               time.Time

	why string // why further checks are impossible; empty if further checks are possible
}

func newClusterCheck(r *report, c adminapi.Cluster, now time.Time) *clusterCheck {
	if c.API == nil {
		c.API = new(adminapi.APIServer)
	}
	return &clusterCheck{report: r, Cluster: c, now: now}
}

// The unchecked method adds a result with the level Unchecked for each check that needs a working
// API server.
func (l *clusterCheck) unchecked() {
	checks := [][2]string{{sectionAPI, Rights}, {sectionTrust, Anchors}, {sectionNetworks, PodNetworks}}
	if l.local {
		checks = append(checks, [2]string{sectionAPI, CRDs})
	}
	for _, c := range checks {
		l.about(c[0], c[1], l.Cluster.Cluster)(Unchecked, l.why, "")
	}
}

// These constants are the clock skews above which a warning or a failure is reported. If clocks
// differ by minutes, API servers reject valid tokens and certificates. The measured skew may be off
// by a few seconds.
const (
	skewWarning = 30 * time.Second
	skewFailure = 5 * time.Minute
)

func (l *clusterCheck) checkServer() {
	add := l.about(sectionAPI, API, l.Cluster.Cluster)
	s := l.API
	if s.Answered.IsZero() {
		l.why = "the API server does not answer"
	}
	const credentials = "check that the server in the kubeconfig is correct and that the credentials are still valid"
	failing := slices.IndexFunc(s.Refused, func(r adminapi.RefusedRequest) bool { return l.isFailure(r.Status) })
	switch {
	case s.ClientCertificate != "":
		add(Failure, "the API server rejects the client certificate: "+s.ClientCertificate,
			l.hintOfServer("use a valid certificate from an authority that the API server trusts"))
	case s.Error != "":
		text := s.Error
		hint := "check the address, and the network between Isthmus and the API server"
		if s.Certificate != "" {
			text = "its certificate is not valid: " + s.Certificate
			hint = "check that the address belongs to the API server and is among the names in the server's certificate"
		}
		if s.OtherAuthority {
			hint = "correct the certificate authority in the kubeconfig, or the address if it belongs to another server"
		}
		add(Failure, "the API server cannot be reached: "+text, l.hintOfServer(hint))
	case s.Answered.IsZero():
		l.why = "the API server has not been contacted yet"
		add(Unchecked, l.why, "")
	case s.VersionError != "":
		l.why = "the API server responds with an error"
		add(Failure, s.VersionError, l.hintOfServer(credentials))
	case failing >= 0:
		l.why = "the API server responds with an error"
		r := s.Refused[failing]
		answer := fmt.Sprintf("%d %s to %s %s", r.Status, http.StatusText(r.Status), r.Verb, r.Resource)
		add(Failure, "the API server answers "+answer, l.hintOfServer(credentials))
	case s.Version == "":
		add(OK, "the API server answers", "")
	default:
		add(OK, "the API server answers, version "+s.Version, "")
	}
}

// isFailure reports whether a status shows that the API server is failing or rejects the
// credentials.
func (l *clusterCheck) isFailure(status int) bool {
	follows := l.State == adminapi.Ready || l.State == adminapi.Pending || l.State == ""
	return status == http.StatusUnauthorized || status >= 500 && !follows
}

func (l *clusterCheck) unauthorized() bool {
	return slices.ContainsFunc(l.API.Refused,
		func(r adminapi.RefusedRequest) bool { return r.Status == http.StatusUnauthorized })
}

func (l *clusterCheck) hintOfServer(hint string) string {
	if l.local {
		return hint + "; see --kubeconfig"
	}
	return hint + "; to renew the link: isthmus link " + l.Cluster.Cluster + " --context CONTEXT --apply"
}

func (l *clusterCheck) checkClock() {
	add := l.about(sectionAPI, ClockSkew, l.Cluster.Cluster)
	c := l.API.Clock
	switch {
	case c == nil && l.API.Answered.IsZero():
		add(Unchecked, l.why, "")
		return
	case c == nil:
		add(Unchecked, "the API server does not send a Date header", "")
		return
	}
	off := time.Duration(c.Ahead * float64(time.Second))
	way := "ahead"
	if off < 0 {
		off, way = -off, "behind"
	}
	text := fmt.Sprintf("its clock is %s %s", roughly(off), way)
	const hint = "synchronize the clocks of the nodes in both clusters (NTP): expiry times depend on them"
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

var kinds = []string{"serviceprofiles.linkerd.io", "servers.policy.linkerd.io", "externalworkloads.workload.linkerd.io"}

func (l *clusterCheck) checkKinds() {
	add := l.about(sectionAPI, CRDs, l.Cluster.Cluster)
	var absent, unknown []string
	for _, k := range kinds {
		refused := slices.DeleteFunc(slices.Clone(l.API.Refused),
			func(r adminapi.RefusedRequest) bool { return r.Resource != k })
		switch {
		case slices.ContainsFunc(refused,
			func(r adminapi.RefusedRequest) bool { return r.Status == http.StatusNotFound }):
			absent = append(absent, k)
		case slices.ContainsFunc(refused,
			func(r adminapi.RefusedRequest) bool { return r.Status != http.StatusForbidden || !l.fromHere }):
			// If a replica lacks the permission to read a resource, the replica does not know
			// whether the resource exists. If fromHere is true, a separate request has already
			// checked whether the resource exists.
			unknown = append(unknown, k)
		}
	}
	switch {
	case len(absent) > 0:
		add(Warning, "not installed: "+strings.Join(absent, ", "),
			"install Linkerd's CRDs: linkerd install --crds | kubectl apply -f -")
	case len(unknown) > 0:
		add(Unchecked, "the API server did not report whether it serves "+strings.Join(unknown, ", "), "")
	default:
		add(OK, "Linkerd's CRDs are installed", "")
	}
}

const (
	overBudget = "over budget" // part of a Reason
	moreMemory = "raise --cluster-memory and the memory limit of Isthmus"
)

// checkState reports the state and standing of the cluster, and objects that Isthmus ignores.
func (l *clusterCheck) checkState() {
	if l.State == "" || l.State == adminapi.Rejected { // no replica watches the cluster
		return
	}
	add := l.about(sectionLinks, LinkState, l.Cluster.Cluster)
	text := "it is " + string(l.State)
	out := l.Standing != adminapi.InService && l.StandingReason != adminapi.NoGatewayAnswers // cordoned or lost
	if out && l.State == adminapi.Ready {
		text = fmt.Sprintf("it is ready and %s: %s", l.Standing, l.StandingReason)
	} else if l.Reason != "" {
		text += ": " + l.Reason
	}
	uncordon := "if it is no longer wanted: isthmus uncordon " + l.Cluster.Cluster
	switch {
	case l.State == adminapi.Ready && out:
		add(Warning, text, uncordon)
	case l.State == adminapi.Ready:
		add(OK, text, "")
	case strings.Contains(l.Reason, overBudget):
		add(Failure, text, "run isthmus clusters to see which objects use the memory; "+
			"if the cluster is meant to be this large, "+moreMemory)
	case l.State == adminapi.Pending:
		add(Warning, text, "the cluster was just linked: wait up to half a minute")
	default:
		add(Failure, text,
			"see the api and rights checks, and run isthmus clusters "+
				"to see which objects cannot be read, and since when")
	}
	if out && l.State != adminapi.Ready {
		add(Warning, fmt.Sprintf("it is %s: %s", l.Standing, l.StandingReason), uncordon)
	}
	if l.NewCredentials != "" {
		hint := "undo the last change to the link Secret, or renew the link: " +
			"isthmus link " + l.Cluster.Cluster + " --context CONTEXT --apply"
		if len(l.Awaited) > 0 {
			hint = "allow the new credentials to list and watch " + strings.Join(l.Awaited, ", ") +
				" in that cluster: kubectl apply -f manifests/link/remote-access.yaml; or " + hint +
				"; docs/links.md describes other solutions"
		}
		add(Failure, l.NewCredentials, hint)
	}
	if l.Memory.Near() && l.State == adminapi.Ready {
		percent := 100 * l.Memory.Used / l.Memory.Limit
		add(Warning, fmt.Sprintf("the cache of the cluster uses %d%% of the memory cap for a linked cluster", percent),
			moreMemory+": a cluster that exceeds its memory cap becomes stale")
	}
	add = l.about(sectionLinks, Objects, l.Cluster.Cluster)
	for _, text := range l.ObjectWarnings {
		add(Warning, text, "ask the owners of the namespaces in the linked cluster to correct the objects")
	}
	for _, x := range l.NeverRead() {
		if x.Failure != adminapi.Forbidden { // checkPermissions reports missing permissions
			add(Warning, x.Unread(),
				"find out why the cluster's API server cannot list the objects; "+
					"a possible cause is a broken conversion webhook")
		}
	}
	for _, x := range l.Resources {
		if x.Trouble != "" {
			add(Warning, x.Resource+": "+x.Trouble,
				"check the cluster's API server, and the network between Isthmus and the API server")
		}
	}
	if l.Network != "" && (l.State == adminapi.Ready || l.State == adminapi.Stale) {
		l.checkGateways()
	}
}

func (l *clusterCheck) checkGateways() {
	add := l.about(sectionLinks, Gateways, l.Cluster.Cluster)
	usable := slices.DeleteFunc(slices.Clone(l.Gateways), func(g adminapi.ClusterGateway) bool {
		return g.State == adminapi.GatewayOutside || g.State == adminapi.GatewayIPv6Off
	})
	var dead []string
	for _, g := range usable {
		if g.State == adminapi.GatewayDead {
			dead = append(dead, fmt.Sprintf("%s (%s)", g.Address, g.Reason))
		}
	}
	const run = "check that the gateway's Pods are running, " +
		"and that Isthmus can reach their mc-gateway and mc-probe ports"
	switch {
	case len(usable) == 0:
		add(Failure, "none of the cluster's Linkerd gateways can be used",
			"configure the gateway's Service in the linked cluster as Linkerd's multicluster chart does "+
				"(with a load balancer address, the port mc-gateway "+
				"and the annotation mirror.linkerd.io/gateway-identity), "+
				"or annotate the link Secret with isthmus.io/gateway-addresses and isthmus.io/gateway-identity; "+
				"the addresses must be within the ranges in the annotation isthmus.io/address-ranges, if it is set")
	case len(dead) == len(usable):
		add(Failure, "none of the cluster's Linkerd gateways answers probes: "+strings.Join(dead, ", "),
			run+"; until a gateway answers, services use the cluster only if they have no other endpoints")
	case len(dead) > 0:
		list := strings.Join(dead, ", ")
		add(Warning,
			fmt.Sprintf("%d of %d Linkerd gateways do not answer probes: %s", len(dead), len(usable), list), run)
	case len(l.GatewayProblems) == 0:
		addresses := text.Count(len(l.Gateways), "address", "addresses")
		add(OK, fmt.Sprintf("the cluster is on network %s, and its Linkerd gateways have %s", l.Network, addresses), "")
	}
	for _, problem := range l.GatewayProblems {
		add(Warning, problem,
			"correct the gateway's Service in the linked cluster, or the link Secret: "+
				"run isthmus clusters to see each address")
	}
}

// These constants define how long before expiry a warning is reported. Credentials can be renewed
// with one command, but rotating the trust anchors of a mesh takes weeks.
const (
	soonCredentials = 7 * 24 * time.Hour
	soonAnchors     = 30 * 24 * time.Hour
)

// checkExpiry reports when the credentials of a link expire. If the API server rejects the
// credentials, checkExpiry reports an expiry date only if the date has passed.
func (l *clusterCheck) checkExpiry() {
	level, text := OK, "its credentials do not expire"
	if e := l.API.Expiry; e != nil {
		level, text = expiry(l.now, e.At, soonCredentials)
		text = "its " + e.What + " " + text
	}
	if l.unauthorized() && level != Failure {
		level, text = Unchecked, "the API server rejects its credentials"
	}
	hint := ""
	if level != OK {
		hint = "renew the link: isthmus link " + l.Cluster.Cluster + " --context CONTEXT --apply"
	}
	l.about(sectionLinks, LinkExpiry, l.Cluster.Cluster)(level, text, hint)
}

func expiry(now, at time.Time, soon time.Duration) (level Level, text string) {
	left := at.Sub(now)
	when := at.UTC().Format("2006-01-02 15:04 MST")
	switch {
	case left <= 0:
		return Failure, "expired at " + when
	case left < soon:
		return Warning, fmt.Sprintf("expires in %s, at %s", roughly(left), when)
	}
	return OK, "is valid until " + when
}

// The roughly function returns an approximate duration in words. The result uses the largest unit
// in which the duration is at least 1.9.
func roughly(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= u.size*19/10 {
			return fmt.Sprintf("%d %s", d.Round(u.size)/u.size, u.name)
		}
	}
	return text.Count(int(d.Round(time.Second)/time.Second), "second", "seconds")
}

// checkPermissions reports all missing permissions in a single result. The level of the result is
// the worst level of any missing permission. A replica notices that a permission is missing only
// when the API server rejects a request.
func (l *clusterCheck) checkPermissions(noAccount, notAsked string) {
	add := l.about(sectionAPI, Rights, l.Cluster.Cluster)
	if l.local && noAccount != "" {
		add(Unchecked, "there is no ServiceAccount "+noAccount+" yet",
			"the installation creates the ServiceAccount and its permissions; "+
				"to check a different ServiceAccount, use --service-account")
		return
	}
	rights := LinkPermissions()
	hint := "in that cluster: kubectl apply -f manifests/link/remote-access.yaml"
	if l.local {
		rights = LocalPermissions()
		hint = "kubectl apply -f manifests/install/rbac.yaml"
		if l.exports {
			rights, hint = append(rights, ExportPermissions()...),
				hint+", and for --exports=on: kubectl apply -k manifests/install/exports"
		}
	}
	if notAsked != "" {
		add(Unchecked, notAsked, hint)
		return
	}
	worst := OK
	texts := map[Level][]string{}
	for _, r := range rights {
		neededForImports := l.imports && !l.local && r.String() == "serviceexports.multicluster.x-k8s.io"
		if neededForImports {
			r.Level = Warning
		}
		if verbs := r.missing(l.API.Refused); len(verbs) > 0 {
			if neededForImports {
				hint += ", or isthmus link " + l.Cluster.Cluster + " --context CONTEXT --apply; " +
					"if you do not need ServiceExports, set --export-sources=labels"
			}
			texts[r.Level] = append(texts[r.Level], fmt.Sprintf("%s %v (%s)", strings.Join(verbs, ", "), r, r.Lost))
			worst = slices.MaxFunc([]Level{worst, r.Level}, func(a, b Level) int { return Rank(a) - Rank(b) })
		}
	}
	text := strings.Join(texts[worst], "; ")
	switch worst {
	case OK:
		if l.fromHere {
			add(OK, "all permissions are granted", "")
			return
		}
		add(OK, "Isthmus has all permissions that it has needed so far", "")
	case Unchecked: // missing optional permissions are not a problem
		add(OK, "all required permissions are granted; missing optional permissions: "+text, "")
	default:
		add(worst, "not permitted: "+text, hint)
	}
}

// toPermit returns a hint about how to grant a missing read permission, or an empty string if the
// given reason is not a missing permission.
func (l *clusterCheck) toPermit(why string) string {
	switch {
	case !strings.HasPrefix(why, "the credentials may not read"):
		return ""
	case l.local:
		return "to permit it: kubectl apply -f manifests/install/rbac.yaml"
	}
	return "to permit it, in that cluster: kubectl apply -f manifests/link/remote-access.yaml"
}

const anchorsConfigMap = "linkerd-identity-trust-roots"

// checkAnchors reports expired trust anchors, and trust anchors that differ from those of the local
// cluster.
func (l *clusterCheck) checkAnchors(here *clusterCheck) {
	add := l.about(sectionTrust, Anchors, l.Cluster.Cluster)
	a := l.API.Anchors
	switch {
	case a == nil:
		add(Unchecked, "not read yet", "")
		return
	case a.Error != "":
		add(Unchecked, aged(a.Error, a.AgeSeconds, anchorsAge), l.toPermit(a.Error))
		return
	case len(a.List) == 0:
		return
	}
	level, text := anchorsExpiry(a.List, l.now)
	if own := here.API.Anchors; !l.local && own != nil && len(own.List) > 0 {
		if differ, how := compareAnchors(own.List, a.List); Rank(differ) >= Rank(level) {
			level, text = differ, how
		}
	}
	hint := ""
	if level != OK {
		hint = "use the same trust anchors in all clusters; to rotate them: " +
			"https://linkerd.io/2/tasks/manually-rotating-control-plane-tls-credentials/"
	}
	add(level, aged(text, a.AgeSeconds, anchorsAge), hint)
}

// Cached trust anchors are normally at most anchorsAge seconds old, and cached Pod networks are
// normally at most networksAge seconds old. If a check is based on data that is older than usual,
// the result says how old the data is.
const (
	anchorsAge  = 15
	networksAge = 65
)

// The aged function appends the age of the data to the text of a result if the data is older than
// usual.
func aged(text string, seconds, usual int) string {
	if seconds <= usual {
		return text
	}
	return fmt.Sprintf("%s (read %v ago)", text, roughly(time.Duration(seconds)*time.Second))
}

// anchorsExpiry describes the trust anchor that expires last, and reports how many trust anchors
// have expired.
func anchorsExpiry(list []adminapi.Anchor, now time.Time) (level Level, text string) {
	last := slices.MaxFunc(list, func(x, y adminapi.Anchor) int { return x.Expires.Compare(y.Expires) })
	level, text = expiry(now, last.Expires, soonAnchors)
	if level != OK {
		return level, "the trust anchor " + text
	}
	expired := 0
	for _, c := range list {
		if !now.Before(c.Expires) {
			expired++
		}
	}
	if expired > 0 {
		return Warning, fmt.Sprintf("%d of %d trust anchors have expired; the anchor with the latest expiry %s",
			expired, len(list), text)
	}
	return OK, "the trust anchor " + text
}

func compareAnchors(here, there []adminapi.Anchor) (level Level, text string) {
	common := 0
	for _, x := range here {
		if slices.ContainsFunc(there, func(y adminapi.Anchor) bool { return x.SHA256 == y.SHA256 }) {
			common++
		}
	}
	switch n, m := len(here), len(there); {
	case common == 0:
		return Failure, "the cluster has no trust anchor in common with the local cluster: " +
			"proxies reject each other's identities"
	case common < n || common < m:
		return Warning, fmt.Sprintf("the trust anchors differ: %d in the local cluster, %d in the linked cluster, "+
			"%d in common: a proxy rejects certificates whose trust anchor is missing from the proxy's cluster",
			n, m, common)
	}
	return OK, "the same trust anchors as here"
}

func (l *clusterCheck) podRanges() (list []netip.Prefix) {
	if l.API.Networks == nil {
		return nil
	}
	for _, text := range l.API.Networks.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return list
}

func (l *clusterCheck) checkNetwork(overlaps []string) {
	n := l.API.Networks
	add := func(level Level, text, hint string) {
		if n != nil {
			text = aged(text, n.AgeSeconds, networksAge)
		}
		l.about(sectionNetworks, PodNetworks, l.Cluster.Cluster)(level, text, hint)
	}
	switch {
	case n == nil:
		add(Unchecked, "not read yet", "")
	case n.Error != "":
		add(Unchecked, n.Error, l.toPermit(n.Error))
	case len(overlaps) > 0:
		texts := overlaps[:min(len(overlaps), 5)]
		if more := len(overlaps) - len(texts); more > 0 {
			texts = append(slices.Clone(texts), fmt.Sprintf("%d more", more))
		}
		add(Warning, "Pod CIDRs overlap: "+strings.Join(texts, "; "),
			"federated Services need flat networks, in which each address belongs to one Pod: "+
				"use different --cluster-cidr ranges for new clusters, "+
				"or reach the clusters through Linkerd gateways (annotation isthmus.io/network on the link Secret)")
	case n.Nodes == 0:
		add(OK, "it has no Nodes", "")
	case len(n.CIDRs) == 0:
		add(Unchecked, "its Nodes have no Pod CIDR", "some network plugins do not use Pod CIDRs: "+
			"compare the ranges of the plugins")
	case n.Partly:
		add(OK, fmt.Sprintf("the cluster's Pod CIDRs do not overlap with those of other clusters, "+
			"according to %d of its Nodes", n.Nodes), "")
	default:
		add(OK, "the cluster's Pod CIDRs do not overlap with those of other clusters", "")
	}
}
