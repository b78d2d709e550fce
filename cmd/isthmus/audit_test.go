package main

import (
	"strings"
	"testing"
	"time"

	"isthmus/clusterstore/audit"
	"isthmus/internal/adminapi"
)

// TestAuditPage: the page has the fields that others read.
func TestAuditPage(t *testing.T) {
	var page strings.Builder
	if err := writePage(&page, adminapi.Audit{Interval: "off", Late: []string{}, Results: []adminapi.AuditResult{{Service: "ns/web", Differences: []adminapi.AuditDifference{{Object: "ns/a", Problem: "differs"}}}}}, func() {}); err != nil {
		t.Fatal(err)
	}
	want := `{"interval":"off","services":0,"waiting":0,"late":[],"differences":0,"results":[{"at":"0001-01-01T00:00:00Z","service":"ns/web","cluster":"","compared":0,"differences":[{"object":"ns/a","problem":"differs","healed":false}]}]}`
	if got := strings.Join(strings.Fields(page.String()), ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAuditFlag: off, and durations that make sense.
func TestAuditFlag(t *testing.T) {
	for text, want := range map[string]time.Duration{"off": 0, "1h": time.Hour, "10s": audit.MinInterval, "168h": audit.MaxInterval} {
		o := auditOptions{auditText: text}
		if err := o.check(); err != nil || o.audit != want {
			t.Errorf("%s: %v, %v", text, o.audit, err)
		}
	}
	for _, text := range []string{"", "on", "0", "0s", "9s", "169h", "-1h", "1"} {
		o := auditOptions{auditText: text}
		if err := o.check(); err == nil || !strings.Contains(err.Error(), "--audit is ") {
			t.Errorf("%q is accepted: %v", text, err)
		}
	}
}
