package reach

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"

	"isthmus/clusterstore/kube"
)

// says is an API server that gives the same response to every request.
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

// shown fails the test if a message contains control characters or has more than two lines.
func shown(t *testing.T, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("not printable: %q", text)
		}
	}
	if strings.Count(text, "\n") > 1 {
		t.Errorf("more than a message and a hint: %q", text)
	}
}

// FuzzGateways checks that every response of an API server yields printable replicas or a printable
// error.
func FuzzGateways(f *testing.F) {
	const pod = `{"metadata":{"namespace":"linkerd","name":"isthmus-0"},` +
		`"spec":{"containers":[{"name":"isthmus","ports":[{"name":"admin","containerPort":-1}]}]},` +
		`"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
	for _, body := range []string{
		`{"kind":"PodList","apiVersion":"v1","items":[` + pod + `]}`,
		`{"kind":"PodList","apiVersion":"v1","items":[` + strings.ReplaceAll(pod, "isthmus-0", `\u001b[2J\n`) + `]}`,
		`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"\u001b"},` +
			`"status":{"phase":"\u001b",` +
			`"containerStatuses":[{"name":"\u009b","state":{"waiting":{"reason":"\n\n"}}}]}}]}`,
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
		if code < 200 || code > 599 || code == http.StatusTooManyRequests { // client-go retries such a request
			return
		}
		config := &rest.Config{Host: "http://127.0.0.1:1", QPS: -1, WarningHandler: rest.NoWarnings{}}
		api, err := kube.NewTyped(config, &http.Client{Transport: says{code, body}})
		if err != nil {
			t.Fatal(err)
		}
		c := &Cluster{options: Options{Namespace: "linkerd", Pod: pod}, config: config, API: api}
		replicas, err := c.Replicas(t.Context())
		if err == nil && len(replicas) == 0 {
			t.Error("neither a replica nor an error")
		}
		if err != nil {
			shown(t, err.Error())
		}
		for _, g := range replicas {
			shown(t, g.String())
		}
	})
}

// said is a connection to an API server that delivers a kubelet's message.
type said struct {
	httpstream.Connection
	message *strings.Reader
}

func (s said) CreateStream(http.Header) (httpstream.Stream, error) {
	return stream{Reader: s.message}, nil
}

func (said) CloseChan() <-chan bool { return nil }

type stream struct {
	httpstream.Stream
	io.Reader
}

func (s stream) Read(b []byte) (int, error) { return s.Reader.Read(b) }

// FuzzFailure checks that the size of a kubelet's message is limited and that the message is
// printable.
func FuzzFailure(f *testing.F) {
	for _, message := range []string{"", "refused", "\x1b[2J\n\n", strings.Repeat("x", 3*maxFailure), "\xff"} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		by := &forwarder{
			failed:     make(chan struct{}),
			Connection: said{message: strings.NewReader(message)},
			pod:        Replica{Namespace: "linkerd", Name: "isthmus-0"},
			port:       9996,
		}
		headers := make(http.Header)
		headers.Set(v1.StreamType, v1.StreamTypeError)
		failures, err := by.CreateStream(headers)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(failures)
		if err != nil || !strings.HasPrefix(message, string(text)) || len(text) > 2*maxFailure {
			t.Errorf("%d of %d bytes, %v", len(text), len(message), err)
		}
		err = by.explain(io.EOF)
		if (err == io.EOF) != (message == "") {
			t.Errorf("%v after %q", err, message)
		}
		shown(t, err.Error())
		if len(err.Error()) > 10*maxFailure {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	})
}
