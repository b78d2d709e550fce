package commands

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// TestExplainKnowsVerdicts checks that isthmus explain has a sentence for each verdict of a
// replica.
func TestExplainKnowsVerdicts(t *testing.T) {
	page := adminapi.Explanation{Authority: "web:80", Verdicts: map[string]int{}}
	for v := range federation.OtherFamily + 1 {
		page.Verdicts[v.String()] = 1
		page.Addresses = append(page.Addresses, adminapi.ExplainedAddress{Address: "10.0.0.1", Verdict: v.String()})
	}
	if len(page.Verdicts) != int(federation.OtherFamily)+1 || page.Verdicts[""] > 0 {
		t.Errorf("words of verdicts: %v", page.Verdicts)
	}
	page.Set.Endpoints = 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer server.Close()
	code, out, err := call("explain", "shop/web", "--admin", strings.TrimPrefix(server.URL, "http://"))
	if code != 0 {
		t.Fatalf("exit code %d, %s", code, err)
	}
	for v := range page.Verdicts {
		line := regexp.MustCompile(`(?m)^.* 10\.0\.0\.1 +` + v + ` .*$`).FindString(out)
		if line == "" || strings.HasSuffix(line, "  "+v) {
			t.Errorf("%s: %q", v, line)
		}
	}
}
