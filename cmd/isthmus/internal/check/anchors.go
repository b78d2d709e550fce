package check

import (
	"fmt"
	"slices"
	"time"

	"isthmus/internal/adminapi"
)

const anchorsConfigMap = "linkerd-identity-trust-roots"

// checkAnchors reports the trust anchors, and how they fit to the own cluster's.
func (l *clusterCheck) checkAnchors(here *clusterCheck) {
	add, a := l.about(sectionTrust, Anchors, l.Cluster.Cluster), l.API.Anchors
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
		hint = "rotate trust anchors in all clusters alike: " +
			"https://linkerd.io/2/tasks/manually-rotating-control-plane-tls-credentials/"
	}
	add(level, aged(text, a.AgeSeconds, anchorsAge), hint)
}

// The greatest age, in seconds, of facts that a replica has read for this check. Older facts are shown with their age.
const (
	anchorsAge  = 15
	networksAge = 65
)

// aged appends the age of a fact to its text if the fact is older than usual.
func aged(text string, seconds, usual int) string {
	if seconds <= usual {
		return text
	}
	return fmt.Sprintf("%s (read %v ago)", text, roughly(time.Duration(seconds)*time.Second))
}

// anchorsExpiry describes the anchor that is good for longest, and those that have expired.
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
		return Warning, fmt.Sprintf("%d of %d trust anchors have expired; one %s", expired, len(list), text)
	}
	return OK, "the trust anchor " + text
}

// compareAnchors describes how those of a linked cluster fit to the own ones.
func compareAnchors(here, there []adminapi.Anchor) (level Level, text string) {
	common := 0
	for _, x := range here {
		if slices.ContainsFunc(there, func(y adminapi.Anchor) bool { return x.SHA256 == y.SHA256 }) {
			common++
		}
	}
	switch n, m := len(here), len(there); {
	case common == 0:
		return Failure, "no trust anchor in common with the local cluster: proxies refuse each other's identities"
	case common < n || common < m:
		return Warning, fmt.Sprintf("%d of %d trust anchors here and of %d there are the same: proxies with a certificate by another one are refused", common, n, m)
	}
	return OK, "the same trust anchors as here"
}
