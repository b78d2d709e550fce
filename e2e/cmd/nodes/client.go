//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"isthmus/e2e/proxy"
)

// Report describes the stream of one client.
type Report struct {
	Name     string
	Open     bool // the stream is open and has received a message
	Openings []proxy.Opening
	Faults   []proxy.Fault
	Addrs    []string // addresses of a Get stream
	Fewest   int      // fewest addresses since the mark
	Thinner  string   // replica that sent the fewest addresses
}

const subscribers = 10 // per kind in each Pod

var asked = []struct {
	kind      proxy.Kind
	authority string
}{
	{proxy.Get, "web-federated.shop.svc.cluster.local:80"},
	{proxy.Get, "web.shop.svc.cluster.local:80"},
	{proxy.GetProfile, "web-federated.shop.svc.cluster.local:80"},
}

// runClient subscribes to the replicas of a Service and serves reports on port 8080. The minimum
// number of endpoints in a report refers to the time since the last request with ?mark.
func runClient(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	host, port, err := net.SplitHostPort(args[0])
	if err != nil {
		return err
	}
	server, err := nameserver()
	if err != nil {
		return err
	}
	var clients []*proxy.Subscriber
	for range subscribers {
		for _, a := range asked {
			records := &atomic.Value{}
			records.Store([]string{})
			go follow(ctx, server, host, port, records)
			known := func() []string { return records.Load().([]string) }
			c := proxy.NewSubscriber(
				proxy.SubscriberConfig{Known: known, Kind: a.kind, Authority: a.authority, Connect: connect},
			)
			go c.Run(ctx)
			clients = append(clients, c)
		}
	}
	http.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		var all []Report
		for i, c := range clients {
			all = append(all, reportOf(c, i))
			if r.URL.Query().Has("mark") {
				c.Stream().Mark()
			}
		}
		json.NewEncoder(rw).Encode(all)
	})
	return listen(ctx)
}

func reportOf(c *proxy.Subscriber, i int) Report {
	a, now := asked[i%len(asked)], c.Stream().Snapshot()
	r := Report{
		Name:     fmt.Sprintf("%s %s %d", a.kind, a.authority, i/len(asked)),
		Open:     now.Phase == proxy.Open && now.First != nil,
		Openings: c.Openings(),
		Faults:   now.Faults,
	}
	if a.kind == proxy.Get {
		for _, addr := range now.Get.Addrs() {
			r.Addrs = append(r.Addrs, addr.String())
		}
		fewest, thinned := c.Stream().Fewest()
		r.Fewest = fewest
		for _, o := range r.Openings {
			if !o.First.After(thinned.At) {
				r.Thinner = o.Addr
			}
		}
	}
	return r
}

// connect connects with the default settings of Linkerd's proxies: a connection timeout of a
// second, a keepalive of 10 s and a user timeout of 30 s.
func connect(ctx context.Context, addr string) (proxy.Conn, error) {
	return proxy.ConnectBy(
		ctx,
		net.Dialer{
			Timeout:   time.Second,
			KeepAlive: 10 * time.Second,
			Control: func(_, _ string, c syscall.RawConn) (err error) {
				return errors.Join(
					c.Control(func(fd uintptr) {
						err = unix.SetsockoptInt(
							int(fd),
							unix.IPPROTO_TCP,
							unix.TCP_USER_TIMEOUT,
							30000,
						)
					}),
					err,
				)
			},
		},
		addr,
	)
}

// follow keeps DNS records up to date. It repeats the lookup when the TTL of the response expires.
func follow(ctx context.Context, server, host, port string, records *atomic.Value) {
	for ctx.Err() == nil {
		addrs, ttl, err := lookUp(server, host)
		if err != nil {
			ttl = time.Second
		} else {
			for i := range addrs {
				addrs[i] = net.JoinHostPort(addrs[i], port)
			}
			records.Store(addrs)
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(ttl, 100*time.Millisecond)):
		}
	}
}

// lookUp returns the IPv4 addresses for a name. It is not an error if there are none.
func lookUp(server, host string) (addrs []string, ttl time.Duration, err error) {
	name, err := dnsmessage.NewName(host + ".")
	if err != nil {
		return nil, 0, err
	}
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	if err != nil {
		return nil, 0, err
	}
	conn, err := net.Dial("udp", server)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	answer := make([]byte, 4096)
	if _, err := conn.Write(packed); err != nil {
		return nil, 0, err
	}
	n, err := conn.Read(answer)
	if err != nil {
		return nil, 0, err
	}
	var m dnsmessage.Message
	if err := m.Unpack(answer[:n]); err != nil {
		return nil, 0, err
	}
	if m.ID != query.ID || m.RCode != dnsmessage.RCodeSuccess && m.RCode != dnsmessage.RCodeNameError {
		return nil, 0, fmt.Errorf("the answer is %v", m.RCode)
	}
	ttl = 5 * time.Second // for an empty response
	for i, r := range m.Answers {
		if a, ok := r.Body.(*dnsmessage.AResource); ok {
			addrs = append(addrs, net.IP(a.A[:]).String())
		}
		if t := time.Duration(r.Header.TTL) * time.Second; i == 0 || t < ttl {
			ttl = t
		}
	}
	return addrs, ttl, nil
}

func nameserver() (string, error) {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "nameserver" {
			return net.JoinHostPort(fields[1], "53"), nil
		}
	}
	return "", errors.New("/etc/resolv.conf has no nameserver")
}

// runWeb responds on port 8080. If a URL is given, it responds only while the server at that URL
// responds.
func runWeb(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	http.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		for _, url := range args {
			answer, err := http.Get(url)
			if err != nil {
				http.Error(rw, err.Error(), http.StatusBadGateway)
				return
			}
			answer.Body.Close()
		}
	})
	return listen(ctx)
}

func listen(ctx context.Context) error {
	server := &http.Server{Addr: ":8080"}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

// runHog joins the memory cgroup at the given path and allocates that many MiB. The kernel kills the
// container's process first, because the kubelet has raised its OOM score.
func runHog(args []string) error {
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[0]+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return err
	}
	for memory := make([]byte, size<<20); len(memory) > 0; memory = memory[min(4096, len(memory)):] {
		memory[0] = 1
	}
	return nil
}
