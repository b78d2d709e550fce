package state

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"isthmus/e2e/program"
)

// holdEnv makes the test binary hold the lock of a folder until its standard
// input ends, as a serving process does.
const holdEnv = "STATE_TEST_HOLD"

var loopback = net.IPv4(127, 0, 0, 1)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		if _, err := Dir(dir).Lock(); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// hold starts a process that holds the folder's lock and returns it with what
// it printed.
func hold(t *testing.T, dir Dir) (*program.Process, string) {
	t.Helper()
	p, err := program.Start(program.Config{Path: os.Args[0], Env: []string{holdEnv + "=" + string(dir)}, Announces: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	line, err := p.AwaitLine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p, line
}

// TestLock: one process at a time serves a folder, and a killed one claims it no more.
func TestLock(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "west"))
	first, line := hold(t, dir)
	if line != "held" {
		t.Fatalf("first process: %s", line)
	}
	if pid, err := os.ReadFile(dir.pidFile()); err != nil || string(pid) != strconv.Itoa(first.Pid())+"\n" {
		t.Errorf("the file has %q, not %d: %v", pid, first.Pid(), err)
	}
	if _, line := hold(t, dir); line != string(dir)+" is being served by another process" {
		t.Fatalf("second process: %s", line)
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, line := hold(t, dir); line != "held" {
		t.Fatalf("after the process was killed: %s", line)
	}
}

func TestListenRemembersThePort(t *testing.T) {
	dir := Dir(t.TempDir())
	first, err := dir.Listen(loopback)
	if err != nil {
		t.Fatal(err)
	}
	addr := first.Addr().String()
	if port := first.Addr().(*net.TCPAddr).Port; port < firstPort || port > lastPort {
		t.Errorf("port %d is outside %d–%d", port, firstPort, lastPort)
	}
	if _, err := dir.Listen(loopback); err == nil {
		t.Error("the port was bound twice")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := dir.Listen(loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Addr().String() != addr {
		t.Errorf("first %s, then %s", addr, again.Addr())
	}
}

func TestKubeconfigFitsTheServer(t *testing.T) {
	dir := Dir(t.TempDir())
	c, err := dir.Credentials(loopback)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := dir.Credentials(loopback); err != nil || again != c {
		t.Fatalf("the second time: %v, %v", again, err)
	}
	if err := dir.WriteKubeconfig("west", "https://127.0.0.1:1234", c); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(dir.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(before)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:1234" {
		t.Errorf("server %s", config.Host)
	}
	subject := handshake(t, c, config)
	if subject.Subject.CommonName != "admin" || len(subject.Subject.Organization) != 1 || subject.Subject.Organization[0] != "system:masters" {
		t.Errorf("the client is %v", subject.Subject)
	}
}

// handshake connects a client of the kubeconfig to a server with the
// credentials and returns the client's certificate, verified.
func handshake(t *testing.T, c Credentials, config *rest.Config) *x509.Certificate {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(c.ServerCert, c.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	clientTLS, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	clientTLS.ServerName = "127.0.0.1"
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clientTLS.RootCAs,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled := make(chan error, 1)
	go func() {
		conn, err := tls.Dial("tcp", listener.Addr().String(), clientTLS)
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // the server has verified us when it answers
			conn.Close()
		}
		dialled <- err
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("!")); err != nil {
		t.Errorf("server: %v", err)
	}
	peers := conn.(*tls.Conn).ConnectionState().PeerCertificates
	conn.Close()
	if err := <-dialled; err != nil {
		t.Fatalf("client: %v", err)
	}
	return peers[0]
}

func TestUnfinishedCredentialsAreMadeAnew(t *testing.T) {
	dir := Dir(t.TempDir())
	unfinished := filepath.Join(string(dir), "pki.new")
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unfinished, "ca.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := dir.Credentials(loopback)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(c.ServerCert, c.ServerKey); err != nil {
		t.Error(err)
	}
}
