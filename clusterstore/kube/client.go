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

// Client provides access to the API server of one cluster. All limits of this package apply to
// Clients that [New] returns. Tests create Clients with fakes. A Client is safe for concurrent use.
type Client struct {
	Sources decode.Sources // for lists and watches

	// The Clients field is nil until [Client.AddTyped] is called.
	*Clients

	local    bool
	config   *rest.Config // effective configuration, with the limits of this package
	base     *url.URL
	http     *http.Client
	observer *observer
	close    func() // closes the connections
}

// New returns a Client for a cluster, without sending a request. Each Client has its own
// connections, so that closing a Client never affects another cluster. Requests are not
// rate-limited, because a Client runs only a few watches. If the requests argument is not nil, it
// counts the Client's requests.
func New(name federation.ClusterName, from *rest.Config, requests *Requests) (*Client, error) {
	cfg := rest.CopyConfig(from)
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// The network to the local API server is fast, so compression would save little time, but would
	// use CPU time.
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
	c := &Client{local: name == federation.Local, config: cfg, base: base, close: closeAll}
	c.observer = newObserver(c.Printable)
	c.http = newHTTPClient(requests.transport(name, c.observer.over(singleTry{next})))
	c.Sources = decode.NewSources(c.http, base)
	return c, nil
}

// AddTyped sets Clients. AddTyped must be called at most once, before other goroutines use the
// Client. Because client-go reads whole responses into memory, [guard.Sized] limits the size of
// responses from linked clusters.
func (c *Client) AddTyped() (err error) {
	client := c.singleTries()
	if !c.local {
		client = newHTTPClient(guard.Sized(client.Transport))
	}
	c.Clients, err = NewTyped(c.config, client)
	return err
}

// singleTries returns an HTTP client that prevents client-go from retrying requests.
func (c *Client) singleTries() *http.Client {
	return newHTTPClient(withoutRetryAfter{c.http.Transport})
}

// MCS returns clients for each version of the MCS-API. MCS must be called only for the local
// cluster, because the returned clients do not limit the size of responses.
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

// Close closes the connections of the Client. Requests in flight and later requests fail.
func (c *Client) Close() {
	if c.close != nil {
		c.close()
	}
}

// Printable is like the [Printable] function, but also removes the Client's token from the message.
// A server that is not an API server may include the token in its response.
func (c *Client) Printable(err error) error {
	if c.config == nil {
		return Printable(err)
	}
	return Printable(withoutToken(err, c.config.BearerToken))
}

// Server returns what the Client has learned about the API server from its requests so far. The
// result does not include the facts that a [Keeper] reads, and does not contain credentials.
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

// Answered returns a channel that is closed after the API server's first response. If the Client
// was not created by [New], the channel is nil.
func (c *Client) Answered() <-chan struct{} {
	if c.observer == nil {
		return nil
	}
	return c.observer.answered
}

// Printable uses [text.Clean] to make an error safe to log and display, because the error's message
// may come from a server or an object. If the message is already safe, Printable returns err
// itself.
func Printable(err error) error {
	message := err.Error()
	if fit := text.Clean(message, text.Long); fit != message {
		return reworded(err, strings.TrimSpace(fit))
	}
	return err
}

// withoutToken removes the token from an error's message.
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

// reworded returns an error with a different message. If err is an Unauthorized error, the returned
// error is also an Unauthorized error. All other details of err are lost.
func reworded(err error, text string) error {
	if apierrors.IsUnauthorized(err) {
		return apierrors.NewUnauthorized(text)
	}
	return errors.New(text)
}
