package check

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestTokenExpiry(t *testing.T) {
	token := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sig"
	}
	for _, c := range []struct {
		token string
		want  int64 // 0: none
	}{
		{token(`{"exp":1700000000}`), 1700000000},
		{token(`{"exp":1.7e9,"sub":"x"}`), 1700000000},
		{token(`{"exp":-5}`), 0},
		{token(`{"exp":1e300}`), 253402300799},
		{token(`{"sub":"x"}`), -1}, {token(`{"exp":"soon"}`), -1}, {token(`[]`), -1}, {token(``), -1},
		{"", -1}, {"opaque", -1}, {"a.b", -1}, {"a.b.c.d", -1}, {"a.%%%.c", -1},
	} {
		at, ok := tokenExpiry(c.token)
		if ok != (c.want >= 0) || ok && at.Unix() != c.want {
			t.Errorf("%q: %v, %v, want %d", c.token, at, ok, c.want)
		}
	}
}

func FuzzTokenExpiry(f *testing.F) {
	f.Add("e30.eyJleHAiOjE3MDAwMDAwMDB9.sig")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if at, ok := tokenExpiry(token); ok && (at.Unix() < 0 || at.UTC().Year() > 9999) {
			t.Errorf("%q expires at %v", token, at)
		}
	})
}

func FuzzAnchors(f *testing.F) {
	f.Add("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAnchors(text)
		if (err == nil) != (len(a) > 0) || len(a) > maxCertificates {
			t.Fatalf("%d anchors, %v", len(a), err)
		}
		if err != nil {
			if len(text) > 20 && strings.Contains(err.Error(), text) {
				t.Errorf("%v quotes what it has read", err)
			}
			return
		}
		if level, _ := compareAnchors(a, a); level != OK {
			t.Errorf("anchors differ from themselves: %s", level)
		}
		a.expiry(time.Now())
	})
}

// FuzzClean: no text of a cluster reaches a result that is long or that a terminal may obey.
func FuzzClean(f *testing.F) {
	f.Add("east\x1b[2J", strings.Repeat("ä", 1000))
	f.Fuzz(func(t *testing.T, object, text string) {
		var r Report
		r.Add(Result{Section: sectionAPI, Check: API, Object: object, Level: Failure, Text: text, Hint: text})
		for _, x := range r.Results() {
			for _, s := range []string{x.Object, x.Text, x.Hint} {
				if len(s) > 1500 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
					t.Errorf("%q", s)
				}
			}
		}
	})
}

// TestRoughly: a duration is rounded, never cut, and off by a quarter at most.
func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 seconds", 900 * time.Millisecond: "1 second", 113 * time.Second: "113 seconds", 114 * time.Second: "2 minutes", 150 * time.Second: "3 minutes",
		113 * time.Minute: "113 minutes", 2*time.Hour - time.Second: "2 hours", 45 * time.Hour: "45 hours", 48*time.Hour - time.Second: "2 days",
		60*time.Hour + time.Second: "3 days", 7*24*time.Hour - time.Second: "7 days",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestManyCertificates(t *testing.T) {
	one, _ := certificate(t, time.Hour)
	if _, err := parseAnchors(strings.Repeat(one, maxCertificates)); err != nil {
		t.Error(err)
	}
	if _, err := parseAnchors(strings.Repeat(one, maxCertificates+1)); err == nil || !strings.Contains(err.Error(), "more than 100") {
		t.Error(err)
	}
}

// TestBound: of many results that are not OK the first ones stay, and the rest is counted at the
// worst level among it.
func TestBound(t *testing.T) {
	var r Report
	for i := range MaxOfOne + 50 {
		level := Warning
		if i == MaxOfOne+20 {
			level = Failure
		}
		r.Add(Result{Section: SectionServices, Check: Members, Object: fmt.Sprintf("ns/%04d", i), Level: level, Text: "x", Hint: "y"})
	}
	r.Add(Result{Section: SectionServices, Check: Ports, Level: OK, Text: "fine"})
	list := r.Results()
	if len(list) != MaxOfOne+2 {
		t.Fatalf("%d results", len(list))
	}
	if more := list[MaxOfOne]; more.Level != Failure || more.Text != "50 more like these" || more.Check != Members || list[MaxOfOne+1].Check != Ports {
		t.Errorf("%+v", list[MaxOfOne:])
	}
}

func TestOverlaps(t *testing.T) {
	list := []network{networkOf("local", "10.0.0.0/8"), networkOf("east", "10.1.0.0/16", "10.2.0.0/16"), networkOf("north", "10.1.2.0/24", "fd00::/64"), networkOf("south", "fd00::/80", "192.168.0.0/16")}
	found := overlaps(list)
	for name, want := range map[string]string{
		"local": "[]", "east": "[10.1.0.0/16 overlaps 10.0.0.0/8 of local]",
		"north": "[10.1.2.0/24 overlaps 10.0.0.0/8 of local 10.1.2.0/24 overlaps 10.1.0.0/16 of east]",
		"south": "[fd00::/80 overlaps fd00::/64 of north]",
	} {
		if got := fmt.Sprint(found[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
