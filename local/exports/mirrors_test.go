package exports

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"isthmus/clusterstore/decode"
	"isthmus/local/exports/plan"
)

func nothing(*api) {}

// TestLeases checks that a link counts as Linkerd's while its Lease is renewed, and for
// UnlinkedAfter after that.
func TestLeases(t *testing.T) {
	run(t, nothing, func(a *api) {
		a.wantLease("east", plan.Unknown) // a new process cannot know the holder
		time.Sleep(after)
		a.wantLease("east", plan.Free)
		a.wantLease("", plan.Free)

		a.hold("service-mirror-write-east", 3*after)
		a.wantLease("east", plan.Held)
		a.wantLease("west", plan.Free)
		a.wantLease("", plan.Free)
		a.hold("service-mirror-write-east", 0) // released, as in a restart
		time.Sleep(pollEvery + time.Second)
		a.wantLease("east", plan.Held)
		a.hold("service-mirror-write-east", after)
		a.wantLease("east", plan.Held)
		a.hold("service-mirror-write-east", 0)
		time.Sleep(after - time.Second)
		a.wantLease("east", plan.Held)
		time.Sleep(pollEvery + time.Second)
		a.wantLease("east", plan.Free)

		a.hold("local-service-mirror-write", after) // the holder then dies
		time.Sleep(20 * time.Second)
		a.wantLease("", plan.Held)
		time.Sleep(20 * time.Second)
		a.wantLease("", plan.Held) // the holder may come back
		a.wantLease("east", plan.Free)
		time.Sleep(after)
		a.wantLease("", plan.Free)
	})
}

// TestLeaseOfStart checks that the Lease of a dead mirror counts as held at first. The clock of its
// holder may be wrong.
func TestLeaseOfStart(t *testing.T) {
	run(t, func(a *api) { a.hold("service-mirror-write-east", time.Second); time.Sleep(24 * time.Hour) }, func(a *api) {
		a.wantLease("east", plan.Held)
		time.Sleep(31 * time.Second)
		a.wantLease("east", plan.Held)
		time.Sleep(after)
		a.wantLease("east", plan.Free)
	})
}

// TestLeasesUnreadable checks that the state of a Lease is unknown while Leases cannot be read, and
// for UnlinkedAfter after that. No Service is adopted meanwhile.
func TestLeasesUnreadable(t *testing.T) {
	run(t, nothing, func(a *api) {
		time.Sleep(after)
		a.wantLease("east", plan.Free)
		a.set(func() { a.leasesErr = errForbidden })
		time.Sleep(pollEvery + time.Second)
		a.wantLease("east", plan.Unknown)
		if n := a.Notes(); len(n) != 1 || !strings.Contains(n[0], "Leases") || !strings.Contains(n[0], "namespace mc") {
			t.Errorf("%q", n)
		}
		time.Sleep(10 * after)
		a.wantLease("east", plan.Unknown)
		a.set(func() { a.leasesErr = nil })
		time.Sleep(after - time.Second)
		a.wantLease("east", plan.Unknown)
		time.Sleep(pollEvery + time.Second)
		a.wantLease("east", plan.Free)

		a.hold("service-mirror-write-east", after)
		a.set(func() { a.leasesErr = errors.New("no answer") })
		time.Sleep(pollEvery + time.Second)
		a.wantLease("east", plan.Held) // as last seen, until it expires
		time.Sleep(30*time.Second + after)
		a.wantLease("east", plan.Unknown)
	})
}

// TestLeaseOfLink checks that the name of the Lease contains the name of the Link, not the name of
// its cluster.
func TestLeaseOfLink(t *testing.T) {
	run(t, nothing, func(a *api) {
		a.put("to-east", "east", "")
		time.Sleep(after)
		a.hold("service-mirror-write-to-east", after)
		a.wantLease("east", plan.Held)
		a.put("another", "east", "")
		a.wantLease("east", plan.Held)
		a.set(func() { a.linksErr = errForbidden })
		time.Sleep(after)
		a.wantLease("east", plan.Held)
		time.Sleep(pollEvery)
	})
	run(t, func(a *api) { a.linksErr = errForbidden }, func(a *api) {
		time.Sleep(10 * after)
		a.wantLease("east", plan.Unknown) // a Link with any name may be for this cluster
	})
}

// TestChanged checks that Changed is called within 5 s of a change that only time causes, and never
// without a change.
func TestChanged(t *testing.T) {
	run(t, nothing, func(a *api) {
		reported := func(within time.Duration) bool {
			select {
			case <-a.reports():
				return true
			case <-time.After(within):
				return false
			}
		}
		wait := func(want plan.Lease, most time.Duration) {
			t.Helper()
			for began := time.Now(); a.cluster("east").Lease != want; {
				if changed := a.reports(); a.cluster("east").Lease != want {
					<-changed
				}
				if time.Since(began) > most {
					t.Fatalf("the Lease was not %v after %v", want, time.Since(began))
				}
			}
		}
		wait(plan.Free, after+pollEvery)
		time.Sleep(2 * after)
		if reported(10 * time.Minute) {
			t.Error("Changed was called without a change")
		}
		a.hold("service-mirror-write-east", 0)
		a.hold("service-mirror-write-east", time.Second)
		wait(plan.Held, pollEvery)
		wait(plan.Free, 30*time.Second+after+pollEvery)
		time.Sleep(2 * after)
		if reported(10 * time.Minute) {
			t.Error("Changed was called without a change")
		}
		a.put("east", "east", "")
		if synctest.Wait(); !reported(0) {
			// The first Changed may have come before the call of reports. The age then shows that
			// the Link was read.
			if a.cluster("east").Age.IsZero() {
				t.Error("Changed was not called for a new Link")
			}
		}
	})
}

// TestSelectors checks that the Link for a cluster decides its selectors. The oldest of several
// Links decides, and an empty selector matches nothing.
func TestSelectors(t *testing.T) {
	run(t, nothing, func(a *api) {
		a.wantSelected("east", usual)
		a.put(
			"link",
			"east",
			`,"selector":{"matchLabels":{"a":"b"}},"remoteDiscoverySelector":{"matchExpressions":[{"key":"a",`+
				`"operator":"Exists"}]},"federatedServiceSelector":{},"excludedLabels":["x","team.io/*"],`+
				`"excludedAnnotations":["y"]`,
		)
		a.wantSelected("east", "mirror a=b; ")
		a.wantSelected("link", usual)
		s := a.Selectors("east")
		for key, want := range map[string]bool{
			"x":           true,
			"xx":          false,
			"x/a":         false,
			"team.io/a":   true,
			"team.iox/a":  false,
			"team.io":     false,
			"a.team.io/a": false,
			"y":           false,
		} {
			if s.ExcludedLabels(key) != want || s.ExcludedAnnotations(key) != (key == "y") {
				t.Errorf("excluded %s: %v, %v", key, s.ExcludedLabels(key), s.ExcludedAnnotations(key))
			}
		}
		if got := a.renewed(); !slices.Equal(got, []string{"east"}) {
			t.Errorf("clusters with changed selectors: %v", got)
		}
		time.Sleep(time.Second)
		a.put("a-later", "east", `,"federatedServiceSelector":{"matchLabels":{"a":"b"}}`)
		a.wantSelected("east", "mirror a=b; ")
		a.put("link", "east", `,"remoteDiscoverySelector":{"matchLabels":{"mirror.linkerd.io/exported":"true"}}`)
		a.wantSelected("east", "mirror mirror.linkerd.io/exported=true; ")
		if got := a.renewed(); !slices.Equal(got, []string{"east", "east"}) {
			t.Errorf("clusters with changed selectors: %v", got)
		}
	})
}

// TestUsualLinks checks that a Link with Linkerd's usual selectors changes only the age of the
// cluster. A Link version without a field has the default for that field.
func TestUsualLinks(t *testing.T) {
	const discovery = `,"remoteDiscoverySelector":{"matchLabels":{"mirror.linkerd.io/exported":"remote-discovery"}}`
	const federated = `,"federatedServiceSelector":{"matchLabels":{"mirror.linkerd.io/federated":"member"}}`
	run(t, func(a *api) {
		time.Sleep(time.Hour)
		a.put("east", "east", discovery+federated)
		a.putAs(decode.LinkVersions[1], "middle", "middle", discovery)
		a.putAs(decode.LinkVersions[2], "west", "west", discovery)
	}, func(a *api) {
		at := time.Now()
		time.Sleep(time.Second)
		for _, name := range []string{"east", "west"} {
			a.wantSelected(name, usual)
			if c := a.cluster(name); !c.Age.Equal(at) {
				t.Errorf("%s: %+v", name, c)
			}
		}
		a.wantSelected("middle", "mirror mirror.linkerd.io/exported=remote-discovery; ")
		a.put("east", "east", discovery+federated+`,"probeSpec":{}`)
		if got := a.renewed(); !slices.Equal(got, []string{"middle"}) {
			t.Errorf("clusters with changed selectors: %v", got)
		}
		if c := a.cluster("none"); !c.Age.IsZero() {
			t.Errorf("%+v", c)
		}
	})
}

// TestUnreadableLink checks that an invalid Link leaves the previous selectors in force. If there
// were none, no object is added or removed.
func TestUnreadableLink(t *testing.T) {
	for _, broken := range []string{
		`,"remoteDiscoverySelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}`,
		`,"federatedServiceSelector":7`, `,"excludedLabels":"x"`,
	} {
		run(t, nothing, func(a *api) {
			a.put("east", "east", `,"remoteDiscoverySelector":{"matchLabels":{"a":"b"}}`)
			a.put("east", "east", broken)
			time.Sleep(settleTime)
			a.wantSelected("east", "mirror a=b; ")
			if c := a.cluster("east"); c.Joins != plan.JoinsAll {
				t.Errorf("%+v", c)
			}
			if n := a.Notes(); len(n) != 1 || !strings.Contains(n[0], "Link mc/east") {
				t.Errorf("%q", n)
			}
			a.put("west", "west", broken)
			time.Sleep(settleTime)
			for name, want := range map[string]plan.Joins{
				"west": plan.Unreadable,
				"":     plan.JoinsAll,
				"east": plan.JoinsAll,
			} {
				if c := a.cluster(name); c.Joins != want {
					t.Errorf("%+v", c)
				}
			}
			never := plan.Cluster{Name: "west", LinkSettings: plan.LinkSettings{Joins: plan.JoinsNone}}
			if a.Complete(&never); never.Joins != plan.JoinsNone {
				t.Errorf("%+v", never)
			}
			a.put("west", "west", `,"remoteDiscoverySelector":{"matchLabels":{"a":"b"}}`)
			a.wantSelected("west", "mirror a=b; ")
			// The Services of west may still be those that the default selects.
			if c := a.cluster("west"); c.Joins != plan.Unreadable {
				t.Errorf("%+v", c)
			}
			time.Sleep(settleTime)
			if c := a.cluster("west"); c.Joins != plan.JoinsAll {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestLinkGoes checks that the selectors of a deleted Link stay in force for UnlinkedAfter.
func TestLinkGoes(t *testing.T) {
	run(t, nothing, func(a *api) {
		a.put("east", "east", `,"remoteDiscoverySelector":{"matchLabels":{"a":"b"}}`)
		a.drop("east")
		time.Sleep(after - time.Second)
		a.wantSelected("east", "mirror a=b; ")
		a.put("east", "east", `,"remoteDiscoverySelector":{"matchLabels":{"a":"b"}}`)
		time.Sleep(2 * after)
		a.wantSelected("east", "mirror a=b; ")
		if got := a.renewed(); !slices.Equal(got, []string{"east"}) {
			t.Errorf("clusters with changed selectors: %v", got)
		}
		a.drop("east")
		a.put("new", "east", `,"federatedServiceSelector":{"matchLabels":{"a":"b"}}`) // an existing Link decides
		a.wantSelected("east", "federated a=b; ")
		a.drop("new")
		time.Sleep(after + pollEvery)
		a.wantSelected("east", usual)
		if got := a.renewed(); !slices.Equal(got, []string{"east", "east", "east"}) || !a.cluster("east").Age.IsZero() {
			t.Errorf("clusters with changed selectors: %v", got)
		}
	})
}

// TestLinksUnreadable checks that the default selectors apply if Links do not exist or are
// forbidden. For other errors, no object is added or removed until Links can be read.
func TestLinksUnreadable(t *testing.T) {
	for _, c := range []struct {
		err   error
		joins plan.Joins
		note  string
	}{
		{errForbidden, plan.JoinsAll, "so exports are selected by previously read Links or by"},
		{errAbsent, plan.JoinsAll, "so exports are selected by previously read Links or by"},
		{errors.New("no answer"), plan.Unreadable, "so objects for linked clusters are neither added nor removed"},
	} {
		run(t, func(a *api) { a.linksErr = c.err }, func(a *api) {
			time.Sleep(time.Minute)
			a.mu.Lock()
			before := a.requests
			a.mu.Unlock()
			time.Sleep(time.Minute)
			a.mu.Lock()
			if n := a.requests - before; n > 60 {
				t.Errorf("%v: %d requests in a minute", c.err, n)
			}
			a.mu.Unlock()
			a.wantSelected("east", usual)
			if got := a.cluster("east"); got.Joins != c.joins || len(a.Notes()) != 1 ||
				!strings.Contains(a.Notes()[0], c.note) {
				t.Errorf("%v: %+v, %q", c.err, got, a.Notes())
			}
			a.put("east", "east", `,"remoteDiscoverySelector":{"matchLabels":{"a":"b"}}`)
			a.set(func() { a.linksErr = nil })
			time.Sleep(31 * time.Second)
			a.wantSelected("east", "mirror a=b; ")
			a.set(func() { a.linksErr = c.err })
			time.Sleep(10 * time.Second)
			a.wantSelected("east", "mirror a=b; ")
			if got := a.cluster("east"); got.Joins != plan.JoinsAll {
				t.Errorf("%v: %+v", c.err, got)
			}
		})
	}
}

// FuzzLink checks that any Link in valid JSON can be read, and that its selectors never panic.
func FuzzLink(f *testing.F) {
	f.Add(
		`{"targetClusterName":"east","remoteDiscoverySelector":{"matchExpressions":[{"key":"a","operator":"In",`+
			`"values":["b"]}]},"excludedLabels":["a/*"]}`,
		"a",
		"b",
	)
	f.Add(`{"federatedServiceSelector":{"matchExpressions":[{"key":"","operator":"NotIn"}]}}`, "", "")
	f.Fuzz(func(t *testing.T, spec, key, value string) {
		for _, version := range decode.LinkVersions {
			var o decode.Link
			if json.Unmarshal([]byte(`{"metadata":{"name":"l"},"spec":`+spec+`}`), &o) != nil {
				return // not valid JSON
			}
			o.APIVersion = version.String()
			l, ok := readLink(&o)
			if !ok || l.cluster == "" || l.name != "l" {
				t.Fatalf("%+v", l)
			}
			if l.problem != "" {
				continue // its selectors are not used
			}
			for _, match := range []func(map[string]string) bool{l.selectors.Mirror, l.selectors.Federated} {
				if match != nil {
					match(map[string]string{key: value})
					match(nil)
				}
			}
			l.selectors.ExcludedLabels(key)
			l.selectors.ExcludedAnnotations(key)
		}
	})
}
