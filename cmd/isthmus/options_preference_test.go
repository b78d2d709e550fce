package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/federation"
	"isthmus/local"
)

func TestPreferenceFlags(t *testing.T) {
	o := parsed(t)
	if want := local.DefaultPreference(); !reflect.DeepEqual(*o.preference, want) || o.cordon != federation.InService || o.region != "" ||
		o.lost != federation.InService || o.lostAfter != time.Minute {
		t.Errorf("defaults: %+v, %+v; want %+v", *o.preference, o.preferenceOptions, want)
	}
	o = parsed(t, "--prefer=zone, east+north", "--min-ready=50%", "--return-after=0s", "--return-over=2m",
		"--cordon-local=last-resort", "--region=eu-1", "--when-lost=withdraw", "--lost-after=5m")
	p := o.preference
	if p.String() != "zone, east+north" || p.MinReady.String() != "50%" || p.ReturnAfter != 0 || p.ReturnOver != 2*time.Minute {
		t.Errorf("preference %+v", *p)
	}
	if o.cordon != federation.LastResort || o.region != "eu-1" || o.lost != federation.Withdrawn || o.lostAfter != 5*time.Minute {
		t.Errorf("%+v", o.preferenceOptions)
	}
	if o := parsed(t, "--cordon-local=true", "--when-lost=last-resort"); o.cordon != federation.Withdrawn || o.lost != federation.LastResort {
		t.Errorf("%+v", o.preferenceOptions)
	}
}

// TestPreferenceFlagErrors: the gateway does not start with values that it can't use, and
// names what to give.
func TestPreferenceFlagErrors(t *testing.T) {
	for arg, want := range map[string]string{
		"--prefer=":            `--prefer: it is empty: write tiers, best first, such as "local, any"`,
		"--prefer=local,,any":  "--prefer: tier 2 is empty",
		"--prefer=east+east":   "--prefer: east is there twice",
		"--prefer=Zone,any":    "--prefer: tier 1: Zone differs from zone by case only",
		"--prefer=a b":         `--prefer: tier 1: "a b" is neither zone, local, region, remote or any nor the name of a cluster`,
		"--min-ready=0":        `--min-ready: it is "0": write how many endpoints have to be ready`,
		"--min-ready=101%":     `--min-ready: it is "101%"`,
		"--return-after=2h":    `--return-after: it is "2h": write a duration from 0s to 1h`,
		"--return-over=11m":    `--return-over: it is "11m": write a duration from 0s to 10m`,
		"--return-over=soon":   `--return-over: it is "soon"`,
		"--cordon-local=maybe": `--cordon-local is "maybe": give false, last-resort or true`,
		"--cordon-local=":      `--cordon-local is "": give false, last-resort or true`,
		"--when-lost=true":     `--when-lost is "true": give keep, last-resort or withdraw`,
		"--lost-after=999ms":   "--lost-after is 999ms: give a duration from 1s to 24h",
		"--lost-after=25h":     "--lost-after is 25h0m0s: give a duration from 1s to 24h",
		"--region=eu 1":        `--region is "eu 1": give the name of a region`,
	} {
		o := new(options)
		err := run(gatewayVerb(o), []string{arg}, func(p cli.Process) error { _, err := o.accept(p); return err })
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
		if _, ok := err.(cli.UsageError); !ok {
			t.Errorf("%s: %T is no usage error", arg, err)
		}
	}
}
