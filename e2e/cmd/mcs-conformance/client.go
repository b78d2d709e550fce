//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"isthmus/e2e/harness"
	"isthmus/e2e/proxy"
)

// Environment variables of the programs in Pods. They contain addresses in the Pod's cluster.
const (
	dnsEnv     = "MCS_DNS"     // address of CoreDNS
	isthmusEnv = "MCS_ISTHMUS" // gRPC address of Isthmus
)

// podPrograms contains the programs that Pods find in $PATH, by name. Each of them is this command
// under another name.
var podPrograms = map[string]func(context.Context) error{"nslookup": nslookup, "nc": nc}

func resolver() *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, os.Getenv(dnsEnv))
		},
	}
}

// nslookup prints DNS records in the format of the real program: nslookup -type=A|AAAA|SRV NAME.
func nslookup(ctx context.Context) error {
	flags := flag.NewFlagSet("nslookup", flag.ContinueOnError)
	kind := flags.String("type", "A", "")
	if err := harness.ParseFlags(flags, os.Args[1:], "", os.Stdout); err != nil {
		return err
	}
	name := flags.Arg(0)
	server, port, err := net.SplitHostPort(os.Getenv(dnsEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", dnsEnv, err)
	}
	fmt.Printf("Server:\t\t%s\nAddress:\t%s#%s\n\n", server, server, port)
	lines, err := records(ctx, *kind, name)
	if err != nil {
		fmt.Printf("** server can't find %s: %v\n", name, err)
		return harness.ErrPrinted
	}
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}

// records returns the records of a name in the format of nslookup.
func records(ctx context.Context, kind, name string) (lines []string, err error) {
	label := strings.TrimSuffix(name, ".")
	if kind == "SRV" {
		_, list, err := resolver().LookupSRV(ctx, "", "", name)
		for _, srv := range list {
			line := fmt.Sprintf("%s\tservice = %d %d %d %s", label, srv.Priority, srv.Weight, srv.Port, srv.Target)
			lines = append(lines, line)
		}
		return lines, err
	}
	network, ok := map[string]string{"A": "ip4", "AAAA": "ip6"}[kind]
	if !ok {
		return nil, fmt.Errorf("cannot look up records of type %q: use A, AAAA or SRV", kind)
	}
	ips, err := resolver().LookupNetIP(ctx, network, name)
	for _, ip := range ips {
		lines = append(lines, fmt.Sprintf("Name:\t%s\nAddress: %s", label, ip.Unmap()))
	}
	return lines, err
}

// nc connects and copies data in both directions: nc [-v] [-w SECONDS] [-4|-6] HOST PORT. As in a
// meshed Pod, it connects to an endpoint that Isthmus returns for the address.
func nc(ctx context.Context) error {
	flags := flag.NewFlagSet("nc", flag.ContinueOnError)
	flags.Bool("v", false, "")
	seconds := flags.Int("w", 2, "")
	flags.Bool("4", false, "")
	six := flags.Bool("6", false, "")
	if err := harness.ParseFlags(flags, os.Args[1:], "", os.Stdout); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*seconds)*time.Second)
	defer cancel()
	ip, err := netip.ParseAddr(flags.Arg(0))
	if err != nil {
		network := "ip4"
		if *six {
			network = "ip6"
		}
		ips, err := resolver().LookupNetIP(ctx, network, flags.Arg(0)+".")
		if err != nil {
			return err
		}
		ip = ips[0].Unmap()
	}
	address, err := endpoint(ctx, net.JoinHostPort(ip.String(), flags.Arg(1)))
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(os.Stderr, "Connection to %s succeeded\n", address)
	go io.Copy(conn, os.Stdin)
	_, err = io.Copy(os.Stdout, conn)
	return err
}

// endpoint returns the address to which a proxy would connect. This is an endpoint of the Service
// with the given address, or the address itself if there is no such Service.
func endpoint(ctx context.Context, address string) (string, error) {
	conn, err := proxy.Dial(os.Getenv(isthmusEnv))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, port, _ := net.SplitHostPort(address)
	profile, err := first(ctx, proxy.Config{Conn: conn, Kind: proxy.GetProfile, Authority: address})
	if err != nil {
		return "", fmt.Errorf("profile of %s: %w", address, err)
	}
	name := profile.Profile.Profile().GetFullyQualifiedName()
	if name == "" {
		return address, nil
	}
	answer, err := first(ctx, proxy.Config{Conn: conn, Kind: proxy.Get, Authority: net.JoinHostPort(name, port)})
	if err != nil {
		return "", fmt.Errorf("endpoints of %s: %w", name, err)
	}
	endpoints := answer.Get.Addrs()
	if len(endpoints) == 0 {
		return "", fmt.Errorf("%s:%s has no endpoints", name, port)
	}
	return endpoints[rand.IntN(len(endpoints))].String(), nil
}

func first(ctx context.Context, cfg proxy.Config) (proxy.Snapshot, error) {
	s := proxy.NewStream(cfg)
	if err := s.Open(ctx); err != nil {
		return proxy.Snapshot{}, err
	}
	defer s.Close()
	err := s.Until(ctx, proxy.FirstMessageLimit, func() error {
		now := s.Snapshot()
		if now.First == nil {
			return errors.Join(errors.New("no message yet"), now.Err)
		}
		return nil
	})
	return s.Snapshot(), err
}
