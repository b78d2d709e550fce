package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestRead: of what passes only the marked lines are printed, of what fails or has no end all lines are.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct{ events, want string }{
		"passes": {`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"progress: 3 cases\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"a word\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t1s\n"}
{"Action":"pass","Package":"p"}`, "name: 3 cases\nok  \tp\t1s\n"},
		"one fails": {`{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"it is broken\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1s\n"}
{"Action":"fail","Package":"p"}`, "it is broken\nFAIL\tp\t1s\n"},
		"one is skipped": {`{"Action":"output","Package":"p","Test":"TestB","Output":"NOT tested\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"ok  \tp\t1s\n"}
{"Action":"pass","Package":"p"}`, "NOT tested\nok  \tp\t1s\n"},
		"a panic": {`{"Action":"output","Package":"p","Test":"TestB","Output":"panic: broken\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1s\n"}
{"Action":"fail","Package":"p"}`, "FAIL\tp\t1s\npanic: broken\n"},
		"no build": {`{"Action":"build-output","ImportPath":"p","Output":"x.go:1:1: broken\n"}
{"Action":"build-fail","ImportPath":"p"}
no event`, "x.go:1:1: broken\nno event"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReporter(&out, "name")
			all := &tests{r: r, running: map[string]*packageRun{}}
			r.start(time.Hour, all.now)
			all.read(strings.NewReader(test.events))
			r.stop()
			if out.String() != test.want {
				t.Errorf("it printed %q, not %q", out.String(), test.want)
			}
		})
	}
}
