package cluster

import (
	"strings"
	"testing"
)

// Behaviours: U-01, U-02, U-03.
func TestParsePorts(t *testing.T) {
	named := map[string]uint16{"http": 8080, "123-456": 9, "80": 81}
	for _, x := range []struct {
		list, want string
		named      bool
		bad        int // number of items that the error lists
	}{
		{list: ""},
		{list: ","},
		{list: " "},
		{list: "25,443-447,3306", want: "25,443-447,3306"},
		{list: " 25 , 80-90 ,", want: "25,80-90"},
		{list: "23-23", want: "23"},
		{list: "0", want: "0"},
		{list: "65535", want: "65535"},
		{list: "0-65535", want: "0-65535"},
		{list: "-1", bad: 1},
		{list: "-23-25", bad: 1},
		{list: "-23", bad: 1},
		{list: "25-23", bad: 1},
		{list: "65536", bad: 1},
		{list: "65530-65536", bad: 1},
		{list: "23-x", bad: 1},
		{list: "+23", bad: 1},
		{list: "23 - 25", bad: 1},
		{list: "http", bad: 1},
		{list: "25,,x,27", want: "25,27", bad: 2},
		{list: "27,25-30,20,21,31", want: "20-21,25-31"},
		{list: "65535,1-65534", want: "1-65535"},
		{list: strings.Repeat("x,", 1000) + "25", want: "25", bad: maxNamed},
		{list: "http,25", named: true, want: "25,8080"},
		{list: "123-456", named: true, want: "9"},
		{list: "80", named: true, want: "81"},
		{list: "nothttp,25", named: true, want: "25", bad: 1},
	} {
		t.Run(x.list, func(t *testing.T) {
			lookup := named
			if !x.named {
				lookup = nil
			}
			got, err := ParsePorts(x.list, lookup)
			if got.String() != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
			bad := 0
			if err != nil {
				bad = len(strings.Split(err.Error(), "\n"))
			}
			if bad != x.bad {
				t.Errorf("the error lists %d items, want %d: %v", bad, x.bad, err)
			}
		})
	}
}

func TestPortsContains(t *testing.T) {
	p, err := ParsePorts("0,25,80-90,65535", nil)
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[uint16]bool{
		0: true, 1: false, 24: false, 25: true, 26: false, 79: false,
		80: true, 85: true, 90: true, 91: false, 65534: false, 65535: true,
	} {
		if p.Contains(port) != want {
			t.Errorf("Contains(%d) is %v", port, !want)
		}
	}
	if (Ports{}).Contains(0) {
		t.Error("the empty set contains 0")
	}
	again, _ := ParsePorts(" 0,25,80-90,65535,", nil)
	if p != again {
		t.Error("sets of the same list differ")
	}
}

func FuzzParsePorts(f *testing.F) {
	for _, s := range []string{"", ",", "25,443-447", "0-65535", "a,b,,", "25-23", "\xff", "80-90-100"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		p, err := ParsePorts(list, nil)
		again, errAgain := ParsePorts(p.String(), nil)
		if errAgain != nil || again != p {
			t.Fatalf("%q is parsed as %q, which is parsed as %q: %v", list, p, again, errAgain)
		}
		if err == nil {
			for item := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(list), ","), ",") {
				first, _, _ := strings.Cut(strings.TrimSpace(item), "-")
				if port, ok := parsePort(first); ok != p.Contains(port) && first != "" {
					t.Fatalf("%q was parsed without an error, but %q does not contain %s", list, p, first)
				}
			}
		}
	})
}

// Behaviours.
func TestListenPort(t *testing.T) {
	for addr, want := range map[string]uint16{
		"0.0.0.0:4143": 4143, "[::]:4143": 4143, "[2001:db8::94]:8080": 8080, "127.0.0.1:1": 1,
		"": 0, "4143": 0, ":4143": 0, "localhost:4143": 0, "0.0.0.0": 0, "0.0.0.0:0": 0, "0.0.0.0:65536": 0,
		"0.0.0.0:http": 0,
	} {
		if got := listenPort(addr); got != want {
			t.Errorf("listenPort(%q) = %d, want %d", addr, got, want)
		}
	}
}
