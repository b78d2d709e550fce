package scenario

import (
	"slices"
	"strings"
	"testing"
)

func TestParseHeader(t *testing.T) {
	c, err := Parse("dir/some-case.txtar", []byte(`# what it checks
# feature: plain
# for: every server
# proves: A-1 B-2
# peer: differs — because
skip-unless faults
settle 10ms # wait
repeat 3 again
restart-gateway -a=b
-- again --
settle 0s
settle 1ms
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "some-case" || c.About != "what it checks" || c.Feature != "plain" || !strings.HasPrefix(c.Peer, "differs") ||
		!c.EveryServer || !slices.Equal(c.Proves, []string{"A-1", "B-2"}) {
		t.Errorf("%+v", c)
	}
	if !c.needs["faults"] || !c.needs["gateway"] {
		t.Errorf("needs %v", c.needs)
	}
	if len(c.steps) != 1+3*2+1 {
		t.Fatalf("%d steps", len(c.steps))
	}
	if s := c.steps[2]; s.pos != "dir/some-case.txtar:12" || s.text != "settle 1ms" {
		t.Errorf("step of a section: %+v", s)
	}
}

func TestParseMistakes(t *testing.T) {
	tests := []struct{ script, want string }{
		{"# for: nobody", "c.txtar: for: nobody"},
		{"nonsense", "c.txtar:1: nonsense: there is no such command"},
		{"\nsettle x", "c.txtar:2: settle: \"x\" is no duration"},
		{"settle -1s", "no duration"},
		{"get a", "it is: get ID AUTHORITY [TOKEN]"},
		{"expect-addrs a", "there is no stream \"a\" yet"},
		{"reconnect a", "no stream"},
		{"get a x\nexpect a nowhere", "c.txtar:2: expect: there is no section \"nowhere\""},
		{"get a x\nexpect a s\n-- s --\n{", "section \"s\" (line 4)"},
		{"get a x\nexpect-addrs a 10.0.0.1", "not IP:PORT"},
		{"get a x\nfirst a something", "is none of"},
		{"get a x\nexpect-error a Fine", "no gRPC code"},
		{"get a x\nexpect-error a NotFound (", "missing closing"},
		{"get a x\nquiet a soon", "no duration"},
		{"get a x\nexpect-count a 3", "\"3\" is not N..M"},
		{"get a x\nexpect-count a 3..2", "is not N..M"},
		{"get a x\nexpect-count a -1..2", "is not N..M"},
		{"expect-count a 1..2", "no stream"},
		{"get a x\nparts a gone 1..2", "neither left nor joined"},
		{"get a x\nparts a left 1", "is not N..M"},
		{"parts a left 1..2", "no stream"},
		{"within soon expect-addrs a", "no duration"},
		{"within 1s settle 1s", "\"settle\" is none of"},
		{"within 1s expect-addrs a", "no stream"},
		{"pod south p 10.0.0.1", "none of the clusters"},
		{"pod west p 10.0.0.1.1", "pod IP"},
		{"pod west p 10.0.0.1 prot=1", "unknown option"},
		{"pod west p 10.0.0.1 port=x", "no port"},
		{"pod west p 10.0.0.1 owner=x", "not KIND/NAME"},
		{"svc west s 70000", "no port"},
		{"slice west s web 80 10.0.0.1 fd00::1", "IPv6"},
		{"slice west s web 80 10.0.0.1,colour=red", "unknown word"},
		{"slice west s web 80 10.0.0.1,pod=", "without a value"},
		{"apply west s\n-- s --\nkind: Pod", "without apiVersion"},
		{"apply west s\n-- s --\n", "no documents"},
		{"apply west s\n-- s --\na: [", "section \"s\" (line 3)"},
		{"delete west pod p now", "not grace=SECONDS"},
		{"link east to east", "where there should be: as"},
		{"link east as east server=slow", "must be one of"},
		{"link east as east missing=hope", "no such part"},
		{"link east as east exec", "exec goes with user="},
		{"link east as east user=me", "neither NS/SA nor nobody"},
		{"metric [ 1", "missing closing"},
		{"metric a many", "none of a number, >NUMBER"},
		{"expect-slices west a b c", "no section"},
		{"skip-unless tuesday", "neither gateway nor faults"},
		{"repeat x s\n-- s --\n", "no number of times"},
		{"repeat 2 s\n-- s --\nnonsense", "c.txtar:3: nonsense"},
		{"repeat 2 s\n-- s --\nrepeat 2 s", "too deeply"},
		{"repeat 9999 s\n-- s --\nrepeat 9999 t\n-- t --\nsettle", "more than 100000 commands"},
		{"settle\n-- s --\n-- s --\n", "c.txtar:3: there are two sections"},
		{"settle 'x", "a quote is not closed"},
	}
	for _, test := range tests {
		if _, err := Parse("c.txtar", []byte(test.script)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v\nwant %q", test.script, err, test.want)
		}
	}
	_, err := Parse("c.txtar", []byte("nonsense\nsettle\nmore nonsense\n"))
	if err == nil || !strings.Contains(err.Error(), ":1:") || !strings.Contains(err.Error(), ":3:") {
		t.Errorf("not every mistake is named: %v", err)
	}
}
