package scenario

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		line string
		want []string
	}{
		{"", nil},
		{"   \t ", nil},
		{"# a comment", nil},
		{"get a web:80 # the rest", []string{"get", "a", "web:80"}},
		{"a#b #c", []string{"a#b"}},
		{"get k ''", []string{"get", "k", ""}},
		{`'{"ns": "x"}'`, []string{`{"ns": "x"}`}},
		{`a 'annotation.x= y , z ' b`, []string{"a", "annotation.x= y , z ", "b"}},
		{`k=' v 'w`, []string{"k= v w"}},
		{`'a\nb' c\nd`, []string{"a\nb", `c\nd`}},
		{`'# no comment'`, []string{"# no comment"}},
	}
	for _, test := range tests {
		if got, err := split(test.line); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("split(%q) = %q, %v; want %q", test.line, got, err, test.want)
		}
	}
	if _, err := split("a 'b"); err == nil {
		t.Error("an open quote is no error")
	}
}

func TestAddresses(t *testing.T) {
	got, err := addresses([]string{"10.1.0.[9-11]:80", "[fd00::1]:8080", "10.[1-2].0.[1-2]:1"})
	var want []netip.AddrPort
	for _, a := range []string{"10.1.0.9:80", "10.1.0.10:80", "10.1.0.11:80", "[fd00::1]:8080",
		"10.1.0.1:1", "10.1.0.2:1", "10.2.0.1:1", "10.2.0.2:1"} {
		want = append(want, netip.MustParseAddrPort(a))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"10.0.0.1", "10.0.0.[5-1]:80", "10.0.0.[0-99999999]:80", "x:80", "fd00::1:80"} {
		if got, err := addresses([]string{bad}); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func TestReadOptions(t *testing.T) {
	o, err := readOptions([]string{"label.a.b/c=d", "annotation.e=f=g", "port=1", "port=2", "bare", "selector.app=web"},
		"port=", "bare", "selector.")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(o.labels, object{"a.b/c": "d"}) || !reflect.DeepEqual(o.annotations, object{"e": "f=g"}) ||
		!slices.Equal(o.values["port"], []string{"1", "2"}) || !o.flags["bare"] ||
		!reflect.DeepEqual(o.under("selector"), object{"app": "web"}) {
		t.Errorf("%+v", o)
	}
	if _, err := o.one("port", ""); err == nil {
		t.Error("an option given twice is one")
	}
	for _, bad := range []string{"bare=1", "port", "other", "other=1", "selector.", "selector.=x"} {
		if _, err := readOptions([]string{bad}, "port=", "bare", "selector."); err == nil {
			t.Errorf("%q is an option", bad)
		}
	}
}
