package kube

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// Types of HTTP/2 frames.
const (
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7
)

func writeFrame(w io.Writer, kind byte, stream uint32, payload ...byte) error {
	header := []byte{0, 0, byte(len(payload)), kind, 0}
	header = binary.BigEndian.AppendUint32(header, stream)
	_, err := w.Write(append(header, payload...))
	return err
}

// refusing is an HTTP/2 server that answers no request: by reply it closes the
// connection or refuses the stream.
func refusing(t *testing.T, requests *atomic.Int32, reply func(w io.Writer, stream uint32) error) *Client {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{NextProtos: []string{"h2"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			defer conn.Close()
			_, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
			if err == nil {
				err = writeFrame(conn, frameSettings, 0)
			}
			for header := make([]byte, 9); err == nil; {
				if _, err = io.ReadFull(conn, header); err != nil {
					return
				}
				length := int64(binary.BigEndian.Uint32(header) >> 8)
				if _, err = io.CopyN(io.Discard, conn, length); err == nil && header[3] == frameHeaders {
					requests.Add(1)
					err = reply(conn, binary.BigEndian.Uint32(header[5:]))
				}
			}
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	client := newClient(t, "east", &rest.Config{Host: server.URL, BearerToken: theToken, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil)
	t.Cleanup(client.Close)
	return client
}

// TestRefusedRequests: a server that refuses each request, in a way in which HTTP/2
// allows to send it again, gets it a few times only.
func TestRefusedRequests(t *testing.T) {
	for name, reply := range map[string]func(io.Writer, uint32) error{
		"GOAWAY":         func(w io.Writer, _ uint32) error { return writeFrame(w, frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0) },
		"refused stream": func(w io.Writer, stream uint32) error { return writeFrame(w, frameReset, stream, 0, 0, 0, 7) },
	} {
		for verb, request := range verbs {
			t.Run(name+" "+verb, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), hostileTime)
				defer cancel()
				var requests atomic.Int32
				err := request(ctx, refusing(t, &requests, reply))
				if n := requests.Load(); !errors.Is(err, errTries) || n == 0 || n > maxTries {
					t.Errorf("%d requests, error %v", n, err)
				}
			})
		}
	}
}

// TestNoAnswer: a request whose answer does not begin is an error in time, whatever it
// waits for.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		transport := singleTry{roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://east.example/api/v1/pods", nil)
		if _, err := transport.RoundTrip(request); !errors.Is(err, errNoAnswer) || time.Since(began) != beginTimeout {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
	})
}
