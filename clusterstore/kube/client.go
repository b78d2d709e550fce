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

// Client has the clients of one cluster's API, one for each kind. [New]
// makes one with all the limits of this package; tests fill in fakes. It is safe for
// concurrent use.
type Client struct {
	Sources decode.Sources // of what is followed

	// [Client.AddTyped] makes these, for who writes or asks for rights. A linked cluster is only followed.
	*Clients

	own      bool
	config   *rest.Config // the effective one, with the limits of this package
	base     *url.URL
	http     *http.Client
	observer *observer
	close    func() // its connections
}

// New makes a client of a cluster; it sends nothing. Each client has connections of
// its own, so that closing one cluster's never disturbs another, and no client-side
// rate limit, since it runs only a handful of watches. Its requests are counted in
// requests, which may be nil.
func New(name federation.ClusterName, from *rest.Config, requests *Requests) (*Client, error) {
	cfg := rest.CopyConfig(from)
	cfg.QPS = -1
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// To the own cluster the way is short: what compression would take there is processor time, of both sides.
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

// AddTyped makes the clients that use client-go. Call it once, before others use the Client. client-go reads answers as
// a whole: those of linked clusters are bounded by [guard.Sized].
func (c *Client) AddTyped() (err error) {
	client := c.singleTries()
	if !c.own {
		client = newHTTPClient(guard.Sized(client.Transport))
	}
	c.Clients, err = NewTyped(c.config, client)
	return err
}

// singleTries returns the client for client-go, which never retries a request.
func (c *Client) singleTries() *http.Client {
	return newHTTPClient(withoutRetryAfter{c.http.Transport})
}

// MCS returns clients of the MCS-API by version. They are those of the own cluster: answers are not bounded.
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

// Close closes the client's connections. Requests fail then, also those that are under way.
func (c *Client) Close() {
	if c.close != nil {
		c.close()
	}
}

// Printable returns err as [Printable] does, without the client's token: servers that
// are not API servers may send back what they got.
func (c *Client) Printable(err error) error {
	if c.config == nil {
		return Printable(err)
	}
	return Printable(withoutToken(err, c.config.BearerToken))
}

// Server returns what requests have shown of the API server so far, without what is read by
// itself. It holds no credentials.
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

// Answered returns a channel that is closed once the API server has answered anything; nil: the
// Client was not made by [New].
func (c *Client) Answered() <-chan struct{} {
	if c.observer == nil {
		return nil
	}
	return c.observer.answered
}

// Printable makes an error safe to log and show whose text may come from a server or
// an object, as [text.Clean] does. If nothing has to be changed it returns err itself.
func Printable(err error) error {
	message := err.Error()
	if fit := text.Clean(message, text.Long); fit != message {
		return reworded(err, strings.TrimSpace(fit))
	}
	return err
}

// withoutToken returns err or, if its text has the token, an error without it.
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

// reworded returns an error with another text. Of what err was it keeps only that credentials are refused.
func reworded(err error, text string) error {
	if apierrors.IsUnauthorized(err) {
		return apierrors.NewUnauthorized(text)
	}
	return errors.New(text)
}
