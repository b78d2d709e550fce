package check

import (
	"fmt"
	"strings"
	"time"

	"isthmus/internal/text"
)

const (
	// conflictLasts is how long an address may be claimed by several objects without a warning. When
	// Pods are replaced, such a conflict heals by itself within seconds.
	conflictLasts = time.Minute
	// maxConflicts is how many conflicts have a result of their own.
	maxConflicts = 10
)

// checkConflicts reports the addresses of the own cluster that several objects have claimed for
// longer than conflictLasts.
func checkConflicts(r *report, s *Seen, now time.Time) {
	lasting := 0
	for _, x := range s.Conflicts {
		if now.Sub(x.Since) < conflictLasts {
			continue
		}
		if lasting++; lasting > maxConflicts {
			continue
		}
		r.about(sectionNetworks, Conflicts, x.Address)(Warning,
			fmt.Sprintf("%s have claimed it for %s: %s; GetProfile answers Unavailable until only one does",
				x.Claimed, roughly(now.Sub(x.Since)), strings.Join(x.Objects, ", ")),
			"delete or correct all of these objects but one; "+
				"the Pods of a node that no longer exists: kubectl delete pod -n NAMESPACE NAME --force")
	}
	if more := lasting - maxConflicts + s.MoreConflicts; lasting > maxConflicts {
		text := text.Count(more, "more address is", "more addresses are") + " claimed by several objects"
		r.about(sectionNetworks, Conflicts, "")(Warning, text,
			"/debug/clusters lists the oldest conflicts, as addressConflicts")
	}
	if lasting == 0 {
		r.about(sectionNetworks, Conflicts, "")(OK,
			"no address of this cluster has been claimed by several objects for long", "")
	}
}
