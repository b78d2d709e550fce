package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"isthmus/internal/adminapi"
)

// TestConflicts checks that addresses which several objects claim are reported once that has lasted,
// and that the list is bounded.
func TestConflicts(t *testing.T) {
	conflict := func(n int, age time.Duration) adminapi.AddressConflict {
		ip := fmt.Sprint("10.0.0.", n)
		return adminapi.AddressConflict{
			Address: ip,
			Claimed: "2 Pods with IP " + ip,
			Objects: []string{"Pod a/x", "Pod b/y"},
			Since:   time.Now().Add(-age),
		}
	}
	var many []adminapi.AddressConflict
	for n := range 14 {
		many = append(many, conflict(n, time.Hour))
	}
	for name, x := range map[string]struct {
		conflicts []adminapi.AddressConflict
		more      int
		results   int
		first     string
		last      string
	}{
		"none":  {nil, 0, 0, "", ""},
		"brief": {[]adminapi.AddressConflict{conflict(1, conflictLasts/2)}, 0, 0, "", ""},
		"one lasts": {[]adminapi.AddressConflict{conflict(1, 5*time.Minute), conflict(2, time.Second)}, 0, 1,
			"warning address-conflicts 10.0.0.1: 2 Pods with IP 10.0.0.1 have claimed it for 5 minutes: " +
				"Pod a/x, Pod b/y; GetProfile answers Unavailable until only one does", ""},
		"many": {many, 100, maxConflicts + 1,
			"warning address-conflicts : 104 more addresses are claimed by several objects", "10.0.0.9"},
	} {
		seen := goodSeen()
		seen.Conflicts, seen.MoreConflicts = x.conflicts, x.more
		got := found(seen)
		if len(got) != x.results || len(got) > 0 && (got[0] != x.first || !strings.Contains(got[len(got)-1], x.last)) {
			t.Errorf("%s:\n%s", name, strings.Join(got, "\n"))
		}
		fine := slices.ContainsFunc(Judge(seen), func(r Result) bool { return r.Check == Conflicts && r.Level == OK })
		if fine != (x.results == 0) {
			t.Errorf("%s: all is well: %v", name, fine)
		}
	}
}
