package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// apiServer is an API server with one Pod. apiServer passes the streams of each forwarded
// connection to a function.
type apiServer struct {
	websockets bool // upgrade only to WebSockets; otherwise only to SPDY

	mu          sync.Mutex
	forward     func(data, failures httpstream.Stream)
	connections []httpstream.Connection // all connections
	tunnels     []*websocket.Conn       // all WebSockets
}

// open starts the server and opens it as a Cluster.
func (s *apiServer) open(t *testing.T) *Cluster {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/linkerd/pods", func(w http.ResponseWriter, _ *http.Request) {
		pod := v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: "isthmus-0"},
			Status:     v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
		}
		list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []v1.Pod{pod}}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("/api/v1/namespaces/linkerd/pods/isthmus-0/portforward", s.portForward)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(s.close)
	return open(t, server.URL)
}

func (s *apiServer) portForward(w http.ResponseWriter, r *http.Request) {
	if s.websockets != (r.Method == http.MethodGet) {
		http.Error(w, "not this way", http.StatusBadRequest)
		return
	}
	type opened struct {
		httpstream.Stream
		replied <-chan struct{} // closed when the client has received the reply
	}
	streams := make(chan opened, 10)
	add := func(stream httpstream.Stream, replied <-chan struct{}) error {
		streams <- opened{stream, replied}
		return nil
	}
	connection, err := s.upgrade(w, r, add)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.connections = append(s.connections, connection)
	s.mu.Unlock()
	failures := make(map[string]httpstream.Stream) // by request
	for {
		select {
		case stream := <-streams:
			request := stream.Headers().Get(v1.PortForwardRequestIDHeader) // a client opens the error stream first
			if stream.Headers().Get(v1.StreamType) == v1.StreamTypeError {
				failures[request] = stream
				continue
			}
			<-stream.replied
			s.mu.Lock()
			go s.forward(stream, failures[request])
			s.mu.Unlock()
		case <-connection.CloseChan():
			return
		}
	}
}

func (s *apiServer) upgrade(
	w http.ResponseWriter, r *http.Request, add httpstream.NewStreamHandler,
) (httpstream.Connection, error) {
	if s.websockets {
		upgrader := websocket.Upgrader{Subprotocols: []string{"SPDY/3.1+portforward.k8s.io"}}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.tunnels = append(s.tunnels, conn)
		s.mu.Unlock()
		return spdy.NewServerConnection(portforward.NewTunnelingConnection("server", conn), add)
	}
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return nil, err
	}
	return spdy.NewResponseUpgrader().UpgradeResponse(w, r, add), nil
}

// set replaces the function that handles new connections to the Pod.
func (s *apiServer) set(forward func(data, failures httpstream.Stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forward = forward
}

// close ends all port-forwarding connections.
func (s *apiServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, connection := range s.connections {
		connection.Close()
	}
}

// lose ends the WebSockets without a close message.
func (s *apiServer) lose(_, _ httpstream.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tunnel := range s.tunnels {
		tunnel.UnderlyingConn().Close()
	}
}

// upgrades returns how many connections the server has upgraded.
func (s *apiServer) upgrades() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}

// echo sends back the first four bytes.
func echo(data, failures httpstream.Stream) {
	io.CopyN(data, data, 4)
	failures.Close()
	data.Close()
}

func dial(t *testing.T, c *Cluster) net.Conn {
	t.Helper()
	replicas, err := c.Replicas(t.Context())
	if err != nil || len(replicas) != 1 || replicas[0].String() != "linkerd/isthmus-0" {
		t.Fatalf("%v, %v", replicas, err)
	}
	conn, err := replicas[0].Dial(t.Context(), 9996)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// ping sends four bytes and returns all received bytes.
func ping(conn net.Conn) (string, error) {
	defer conn.Close()
	if _, err := conn.Write([]byte("ping")); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// TestForward checks that bytes flow in both directions over WebSockets. If WebSockets are
// rejected, they flow over SPDY. Connections to a port share one connection to the API server.
func TestForward(t *testing.T) {
	for _, websockets := range []bool{true, false} {
		t.Run(fmt.Sprintf("websockets %t", websockets), func(t *testing.T) {
			server := &apiServer{websockets: websockets, forward: echo}
			c := server.open(t)
			var together sync.WaitGroup
			for range 5 {
				together.Go(func() {
					if text, err := ping(dial(t, c)); text != "ping" || err != nil {
						t.Errorf("%q, %v", text, err)
					}
				})
			}
			together.Wait()
			if n := server.upgrades(); n != 1 {
				t.Errorf("%d connections to the API server", n)
			}
		})
	}
}

// TestFailure checks the errors of failed connections. The error is the kubelet's message about the
// port, or the loss of the connection to the API server. The next connection works again.
func TestFailure(t *testing.T) {
	server := &apiServer{websockets: true, forward: func(data, failures httpstream.Stream) {
		io.WriteString(failures, "dial tcp 127.0.0.1:9996: \x1b refused")
		failures.Close()
		data.Close()
	}}
	c := server.open(t)
	broken := func(want string) {
		t.Helper()
		_, err := ping(dial(t, c))
		if _, ok := errors.AsType[*BrokenError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, want %s", err, want)
		}
		shown(t, err.Error())
	}
	broken(`port 9996 of Pod linkerd/isthmus-0 cannot be reached: "dial tcp 127.0.0.1:9996: \x1b refused"`)
	broken("Check that the replica listens on this port")

	server.set(server.lose)
	broken("the connection to Pod linkerd/isthmus-0 through the API server was lost")

	server.set(echo)
	if text, err := ping(dial(t, c)); text != "ping" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// TestClose checks that closing a cluster ends its forwarded connections and frees their local
// ports.
func TestClose(t *testing.T) {
	server := &apiServer{websockets: true, forward: func(data, _ httpstream.Stream) { io.Copy(data, data) }}
	c := server.open(t)
	conn := dial(t, c)
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the forwarded connection is still open")
	}
	for {
		again, err := net.Dial("tcp", conn.RemoteAddr().String())
		if err != nil {
			break
		}
		again.Close()
		time.Sleep(time.Millisecond)
	}
	if conn, err := (Replica{Namespace: "linkerd", Name: "isthmus-0", cluster: c}).Dial(t.Context(), 9996); err == nil {
		conn.Close()
		t.Error("a closed cluster still forwards ports")
	}
}

// TestSilent checks that a context limits how long an API server may take to upgrade a connection.
func TestSilent(t *testing.T) {
	for _, websockets := range []bool{true, false} {
		asked := make(chan struct{})
		end := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !websockets && r.Method == http.MethodGet {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			close(asked)
			<-end
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		conn, err := Replica{Namespace: "linkerd", Name: "isthmus-0", cluster: open(t, server.URL)}.Dial(ctx, 9996)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("websockets %t: %v", websockets, err)
		}
		close(end)
		server.Close()
	}
}

// TestRedirect checks that a redirect of a port-forward request is not followed, and that no token
// is sent to its target.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s with token %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	text := strings.Replace(kubeconfig(server.URL), `{"server"`, `{"insecure-skip-tls-verify":true,"server"`, 1)
	c, err := (&Options{Kubeconfig: write(t, text), Namespace: "linkerd"}).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := Replica{Namespace: "linkerd", Name: "isthmus-0", cluster: c}.Dial(t.Context(), 9996)
	if err == nil {
		conn.Close()
	}
	if err == nil || asked == 0 || !strings.Contains(err.Error(), "307") {
		t.Errorf("%d requests, %v", asked, err)
	}
}

// TestDeadline checks that the error is the context's error if an API server does not upgrade a
// connection in time. The next Dial does not wait for that connection.
func TestDeadline(t *testing.T) {
	for _, websockets := range []bool{true, false} {
		var asked atomic.Int32
		end := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !websockets && r.Method == http.MethodGet {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			asked.Add(1)
			<-end
		}))
		gateway := Replica{Namespace: "linkerd", Name: "isthmus-0", cluster: open(t, server.URL)}
		for asked.Load() < 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			conn, err := gateway.Dial(ctx, 9996)
			if err == nil {
				conn.Close()
			}
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
				t.Fatalf("websockets %t: %v", websockets, err)
			}
			cancel()
		}
		close(end)
		server.Close()
	}
}

// TestRefused checks the error if an API server, or a proxy in front of it, refuses to forward a
// port. Either the request for WebSockets or the request for SPDY reaches the API server.
func TestRefused(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no \u001b","code":%d}`
	long := strings.Replace(status, "no ", "no "+strings.Repeat("x", 2000), 1)
	for _, c := range []struct {
		reaches    string // method of the request that reaches the API server
		code       int
		body, want string
	}{
		{"GET", 404, status, "Pod linkerd/isthmus-0 no longer exists"},
		{"GET", 403, status, `the API server of context west does not allow you to forward ports of Pods: "no \x1b"`},
		{"GET", 401, status, "rejects the credentials in the kubeconfig"},
		{"GET", 500, status, "Check the kubelet on the Pod's node"},
		{"POST", 404, status, "Pod linkerd/isthmus-0 no longer exists"},
		{"POST", 403, status, `the API server of context west does not allow you to forward ports of Pods: "no \x1b"`},
		{"POST", 403, long, "the API server of context west does not allow you to forward ports of Pods"},
		{"POST", 401, status, "rejects the credentials in the kubeconfig"},
		{"POST", 500, status, "Check the kubelet on the Pod's node"},
		{
			"GET", 502, "<html>\x1b%d",
			"all proxies on the path to the API server support websockets or SPDY",
		},
		{"POST", 400, "<html>\x1b%d", `: 400 Bad Request <html>\x1b400"`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != c.reaches {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.code)
			fmt.Fprintf(w, c.body, c.code)
		}))
		_, err := Replica{Namespace: "linkerd", Name: "isthmus-0", cluster: open(t, server.URL)}.Dial(t.Context(), 9996)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %d: %v, want %s", c.reaches, c.code, err, c.want)
		} else {
			shown(t, err.Error())
		}
		server.Close()
	}
}

// openConnection is a connection to an API server that stays open.
type openConnection struct{ httpstream.Connection }

func (openConnection) CloseChan() <-chan bool { return nil }

// lateReason is an error stream on which the kubelet's message arrives after half a second.
type lateReason struct{ httpstream.Stream }

func (lateReason) Read(b []byte) (int, error) {
	time.Sleep(time.Second / 2)
	return copy(b, "nothing listens"), io.EOF
}

// resetConn is a connection that was reset.
type resetConn struct{ net.Conn }

func (resetConn) Read([]byte) (int, error) { return 0, syscall.ECONNRESET }

// TestReasonAfterReset checks a connection that is reset before the kubelet's message arrives. The
// connection reports the message, but does not wait forever for a message.
func TestReasonAfterReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forwarder{Connection: openConnection{}, port: 9996, failed: make(chan struct{})}
		c := &Conn{Conn: resetConn{}, by: f}
		if _, err := c.Read(nil); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("without a message: got %v, want the reset", err)
		}
		go func() { _, _ = errorStream{lateReason{}, f}.Read(make([]byte, 100)) }()
		if _, err := c.Read(nil); err == nil || !strings.Contains(err.Error(), "cannot be reached: nothing listens") {
			t.Errorf("with a late message: got %v, want the message", err)
		}
	})
}
