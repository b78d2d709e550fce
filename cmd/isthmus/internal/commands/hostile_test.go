package commands

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
)

// TestHostilePages checks that no page makes a command use more than a fixed amount of memory.
func TestHostilePages(t *testing.T) {
	page := func(begin, again string, size int, end string) http.HandlerFunc {
		part := strings.Repeat(again, 1<<20/len(again))
		return func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, begin)
			for sent := 0; sent < size; sent += len(part) {
				if _, err := io.WriteString(w, part); err != nil {
					return
				}
			}
			io.WriteString(w, end)
		}
	}
	for name, c := range map[string]struct {
		verb, path string
		page       http.HandlerFunc
		want       string
	}{
		"clusters": {"clusters", "/debug/clusters", page(`{"clusters":[`, "{},", 33_000_000, "{}]}"),
			"too many elements"},
		"services": {"services", "/debug/services", page(`[`, "{},", 33_000_000, "{}]"), "too many elements"},
		"addresses": {"explain shop/web", "/debug/explain", page(`{"addresses":[`, "{},", 33_000_000, "{}]}"),
			"too many elements"},
		"verdicts": {"explain shop/web", "/debug/explain", page(`{"verdicts":{`, `"":0,`, 33_000_000, `"":0}}`),
			"too many fields"},
		"a text": {"clusters", "/debug/clusters", page(`{"linkSecrets":{"reason":"`, "x", 250<<20, `"}}`),
			"has more than 33554432 bytes"},
		"depth": {"clusters", "/debug/clusters", page(``, `[`, 33_000_000, ``), "nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			admin := startAdmin(t, map[string]http.HandlerFunc{c.path: c.page})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			code, out, errs := call(append(strings.Fields(c.verb), "--admin", admin, "--timeout", "10m")...)
			runtime.ReadMemStats(&after)
			if code != 1 || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d, %.1000s%.1000s", code, out, errs)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 300 {
				t.Errorf("%d MiB were allocated", took)
			}
		})
	}
}

// TestHostileSet checks that a server can't make the state of a stream grow without limit.
func TestHostileSet(t *testing.T) {
	const limit = 16 << 20 // lower than maxBytes, because the race detector makes JSON slow
	const label = limit / 32
	var s getState
	add := func(first, n int, labels map[string]string) error {
		set := &pb.WeightedAddrSet{MetricLabels: labels}
		for i := first; i < first+n; i++ {
			ip := &pbnet.IPAddress{Ip: &pbnet.IPAddress_Ipv4{Ipv4: uint32(i)}}
			set.Addrs = append(set.Addrs, &pb.WeightedAddr{Addr: &pbnet.TcpAddress{Ip: ip, Port: 80}})
		}
		return s.add(set, limit)
	}
	many := make(map[string]string)
	for i := range maxLabels + 1 {
		many[fmt.Sprint(i)] = ""
	}
	if err := add(0, 1, many); err == nil || len(s.endpoints) != 0 {
		t.Errorf("%d endpoints, %v", len(s.endpoints), err)
	}
	if err := add(0, maxEndpoints, nil); err != nil {
		t.Error(err)
	}
	if err := add(maxEndpoints, 1, nil); err == nil || len(s.endpoints) != maxEndpoints {
		t.Errorf("%d endpoints, %v", len(s.endpoints), err)
	}
	if err := add(0, 10, nil); err != nil { // existing endpoints may still change
		t.Error(err)
	}
	s = getState{}
	large := map[string]string{"label": strings.Repeat("x", label)}
	for i := range 1 + limit/2/label {
		if err := add(i%10, 1, large); err != nil ||
			s.bytes > 11*2*label { // replaced endpoints count once, as message and as JSON
			t.Fatalf("%d: %d bytes, %v", i, s.bytes, err)
		}
	}
	s = getState{}
	for add(len(s.endpoints), 1, map[string]string{"label": strings.Repeat("\x01", label)}) == nil {
		if s.bytes > limit {
			t.Fatalf("%d bytes are cached", s.bytes)
		}
	}
	if len(s.endpoints) > limit/6/label {
		t.Errorf("%d endpoints with escaped JSON are cached", len(s.endpoints))
	}
	s.apply(&pb.Update{Update: &pb.Update_NoEndpoints{NoEndpoints: &pb.NoEndpoints{}}})
	if s.bytes != 0 {
		t.Errorf("%d bytes without endpoints", s.bytes)
	}
	again := &pb.WeightedAddrSet{MetricLabels: large,
		Addrs: slices.Repeat([]*pb.WeightedAddr{{Addr: tcp("10.0.0.1:80")}}, 40)}
	if err := s.add(again, limit); !errors.Is(err, errTooLarge) {
		t.Errorf("the same address repeatedly: %v", err)
	}
	s = getState{bytes: maxBytes}
	if err := s.apply(&pb.Update{Update: &pb.Update_Add{Add: again}}); !errors.Is(err, errTooLarge) {
		t.Errorf("beyond the limit of the command: %v", err)
	}
}

// TestDeepConditions checks that the conditions of a profile are described only to a limited depth.
func TestDeepConditions(t *testing.T) {
	path := &pb.RequestMatch{Match: &pb.RequestMatch_Path{Path: &pb.PathMatch{Regex: "/x"}}}
	m, kept := path, ""
	for range 5000 {
		if kept = requestCondition(m, 0); len(kept) > 1000 {
			t.Fatalf("%d bytes", len(kept))
		}
		m = &pb.RequestMatch{Match: &pb.RequestMatch_All{All: &pb.RequestMatch_Seq{Matches: []*pb.RequestMatch{path,
			{Match: &pb.RequestMatch_Not{Not: m}}}}}}
	}
	if !strings.HasPrefix(kept, `(path "/x" and not (path "/x" and not (`) || !strings.Contains(kept, "(… and …)") {
		t.Error(kept)
	}
	status := &pb.ResponseMatch{Match: &pb.ResponseMatch_Status{Status: &pb.HttpStatusRange{Min: 500}}}
	for range 5000 {
		status = &pb.ResponseMatch{Match: &pb.ResponseMatch_Not{Not: status}}
	}
	if text := responseCondition(status, 0); text != strings.Repeat("not ", maxNesting+1)+"…" {
		t.Error(text)
	}
}
