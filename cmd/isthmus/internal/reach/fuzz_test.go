package reach

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"

	"isthmus/clusterstore/typed"
)

// says is an API server that has the same answer to every request.
type says struct {
	code int
	body []byte
}

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: s.code, Status: http.StatusText(s.code), Request: r, ContentLength: int64(len(s.body)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(s.body)),
	}, nil
}

// shown fails for what a message must not have: the lines of one are of this package.
func shown(t *testing.T, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("not printable: %q", text)
		}
	}
	if strings.Count(text, "\n") > 1 {
		t.Errorf("more than a message and what to do: %q", text)
	}
}

// FuzzGateways: whatever an API server answers becomes gateways or an error, and both can be printed.
func FuzzGateways(f *testing.F) {
	const pod = `{"metadata":{"namespace":"linkerd","name":"isthmus-0"},"spec":{"containers":[{"name":"isthmus","ports":[{"name":"admin","containerPort":-1}]}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
	for _, body := range []string{
		`{"kind":"PodList","apiVersion":"v1","items":[` + pod + `]}`,
		`{"kind":"PodList","apiVersion":"v1","items":[` + strings.ReplaceAll(pod, "isthmus-0", `\u001b[2J\n`) + `]}`,
		`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"\u001b"},"status":{"phase":"\u001b","containerStatuses":[{"name":"\u009b","state":{"waiting":{"reason":"\n\n"}}}]}}]}`,
		`{"kind":"PodList","apiVersion":"v1"}`,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"\u001b\n\n","reason":"Forbidden","code":403}`,
		"<html>\x1b\n</html>", strings.Replace(pod, "{", `{"kind":"Pod","apiVersion":"v1",`, 1), "",
	} {
		for _, code := range []int{200, 401, 403, 404, 500} {
			f.Add(code, []byte(body), "")
			f.Add(code, []byte(body), "isthmus-\x1b")
		}
	}
	f.Fuzz(func(t *testing.T, code int, body []byte, pod string) {
		if code < 200 || code > 599 || code == http.StatusTooManyRequests { // which client-go asks again for
			return
		}
		config := &rest.Config{Host: "http://127.0.0.1:1", QPS: -1, WarningHandler: rest.NoWarnings{}}
		api, err := typed.New(config, &http.Client{Transport: says{code, body}})
		if err != nil {
			t.Fatal(err)
		}
		c := &Cluster{options: Options{Namespace: "linkerd", Pod: pod}, config: config, API: api}
		gateways, err := c.Gateways(t.Context())
		if err == nil && len(gateways) == 0 {
			t.Error("neither a gateway nor an error")
		}
		if err != nil {
			shown(t, err.Error())
		}
		for _, g := range gateways {
			shown(t, g.String())
		}
	})
}

// heard is a connection through an API server on which these texts come.
type heard struct {
	failure, data string
	closed        chan bool
	lost          bool // and then it ends
}

func (h *heard) CreateStream(headers http.Header) (httpstream.Stream, error) {
	if headers.Get("streamType") == "error" {
		return &sent{strings.NewReader(h.failure), nil}, nil
	}
	return &sent{strings.NewReader(h.data), h}, nil
}
func (h *heard) Close() error {
	select {
	case <-h.closed:
	default:
		close(h.closed)
	}
	return nil
}
func (h *heard) CloseChan() <-chan bool             { return h.closed }
func (h *heard) SetIdleTimeout(time.Duration)       {}
func (h *heard) RemoveStreams(...httpstream.Stream) {}

type sent struct {
	io.Reader
	of *heard // whose connection is lost after it
}

func (s *sent) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && s.of != nil && s.of.lost {
		s.of.Close()
	}
	return n, err
}
func (*sent) Write(b []byte) (int, error) { return len(b), nil }
func (*sent) Close() error                { return nil }
func (*sent) Reset() error                { return nil }
func (*sent) Headers() http.Header        { return nil }
func (*sent) Identifier() uint32          { return 0 }

// FuzzConn: whatever a Pod's node sends of a failure, data come as they are, and the error that ends them can be printed.
func FuzzConn(f *testing.F) {
	for _, failure := range []string{"", "refused", "\x1b[2J\n\n", strings.Repeat("x", 3*maxFailure), "\xff"} {
		f.Add(failure, "", false)
		f.Add(failure, "data\x00", true)
	}
	f.Fuzz(func(t *testing.T, failure, data string, lost bool) {
		synctest.Test(t, func(t *testing.T) {
			c, err := newConn(nil, &heard{failure: failure, data: data, lost: lost, closed: make(chan bool)}, Gateway{Namespace: "linkerd", Name: "isthmus-0"}, 9996)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(c)
			if string(text) != data {
				t.Errorf("%q, not %q", text, data)
			}
			if (err != nil) != (failure != "" || lost) {
				t.Errorf("after failure %q, lost %v: %v", failure, lost, err)
			}
			if err != nil {
				shown(t, err.Error())
				if len(err.Error()) > 10*maxFailure {
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
			}
			c.Close()
		})
	})
}
