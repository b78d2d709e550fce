package kube

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/decode"
	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/internal/guard"
	"isthmus/internal/text"
)

// Client has the clients of one cluster's API. [New] returns a Client with all limits of this
// package; tests fill in fakes. A Client is safe for concurrent use.
type Client struct {
	Sources decode.Sources // for lists and watches

	// Clients is set by [Client.AddTyped]. Only callers that write or check permissions need it.
	*Clients

	own      bool
	config   *rest.Config // effective configuration, with the limits of this package
	base     *url.URL
	http     *http.Client
	observer *observer
	close    func() // closes the connections
}

// New returns a client of a cluster. New sends no request. Each client has its own connections, so
// that closing one cluster's connections never disturbs another cluster. A client has no
// client-side rate limit, because it runs only a handful of watches. requests counts the client's
// requests, and may be nil.
func New(name federation.ClusterName, from *rest.Config, requests *Requests) (*Client, error) {
	cfg := rest.CopyConfig(from)
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// The local cluster is close, so compression would cost more processor time than it saves.
	cfg.DisableCompression = cfg.DisableCompression || name == federation.Local
	if cfg.UserAgent == "" {
		cfg.UserAgent = UserAgent()
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	next, closeAll, err := newRoundTripper(name, cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{own: name == federation.Local, config: cfg, base: base, close: closeAll}
	c.observer = newObserver(c.Printable)
	c.http = newHTTPClient(requests.transport(name, c.observer.over(singleTry{next})))
	c.Sources = decode.NewSources(c.http, base)
	return c, nil
}

// AddTyped sets Clients. Call it once, before others use the Client. client-go reads whole
// responses into memory, so [guard.Sized] limits those of linked clusters.
func (c *Client) AddTyped() (err error) {
	client := c.singleTries()
	if !c.own {
		client = newHTTPClient(guard.Sized(client.Transport))
	}
	c.Clients, err = NewTyped(c.config, client)
	return err
}

// singleTries returns the HTTP client for client-go, which never retries a request.
func (c *Client) singleTries() *http.Client {
	return newHTTPClient(withoutRetryAfter{c.http.Transport})
}

// MCS returns clients of the MCS-API by version. Use it for the local cluster only, because
// responses are not limited.
func (c *Client) MCS() (map[string]MCS, error) {
	all := make(map[string]MCS)
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		one, err := NewMCS(version, c.config, c.singleTries())
		if err != nil {
			return nil, err
		}
		all[version] = one
	}
	return all, nil
}

// Close closes the client's connections. Requests fail afterwards, including those in flight.
func (c *Client) Close() {
	if c.close != nil {
		c.close()
	}
}

// Printable returns err as the function [Printable] does, without the client's token. A server that
// is not an API server may send back the token.
func (c *Client) Printable(err error) error {
	if c.config == nil {
		return Printable(err)
	}
	return Printable(withoutToken(err, c.config.BearerToken))
}

// Server returns what responses have shown of the API server so far, without the facts. Server
// contains no credentials.
func (c *Client) Server() adminapi.APIServer {
	if c.observer == nil {
		return adminapi.APIServer{}
	}
	c.observer.mu.Lock()
	defer c.observer.mu.Unlock()
	now := c.observer.now
	for kind, status := range c.observer.refused {
		kind.Status = status
		now.Refused = append(now.Refused, kind)
	}
	SortRefused(now.Refused)
	return now
}

// Answered returns a channel that is closed once the API server has sent any response. If the
// Client was not made by [New], the channel is nil.
func (c *Client) Answered() <-chan struct{} {
	if c.observer == nil {
		return nil
	}
	return c.observer.answered
}

// Printable makes an error safe to log and show, as [text.Clean] does. The error's text may come
// from a server or an object. If nothing has to be changed, Printable returns err itself.
func Printable(err error) error {
	message := err.Error()
	if fit := text.Clean(message, text.Long); fit != message {
		return reworded(err, strings.TrimSpace(fit))
	}
	return err
}

// withoutToken returns err, or an error without the token if err's text contains it.
func withoutToken(err error, token string) error {
	if token == "" {
		return err
	}
	quoted := strconv.Quote(token)
	text := err.Error()
	if without := strings.NewReplacer(
		token, "[token]", quoted[1:len(quoted)-1], "[token]",
	).Replace(text); without != text {
		return reworded(err, without)
	}
	return err
}

// reworded returns an error with another text. The new error only preserves whether err means that
// the credentials are refused.
func reworded(err error, text string) error {
	if apierrors.IsUnauthorized(err) {
		return apierrors.NewUnauthorized(text)
	}
	return errors.New(text)
}
