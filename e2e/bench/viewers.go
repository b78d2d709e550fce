package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/poll"
)

// ViewersScale is a fleet that changes while people look at the gateway's page.
type ViewersScale struct {
	ManyScale
	Viewers int
}

func viewersTrial() Trial {
	return Trial{Name: "viewers", Repeats: 1, own: viewers, Metrics: []Metric{
		{Key: "rate", Label: "changes a second", Unit: ""},
		{Key: "share", Label: "CPU of one core, without viewers", Unit: "%"},
		{Key: "cost", Label: "CPU of one core, more with ten viewers of the page", Unit: "%", Most: 5},
		{Key: "lists", Label: "lists that a viewer gets a second", Unit: ""},
		{Key: "kilobytes", Label: "that a viewer gets a second", Unit: "kB"},
	}}
}

// viewers lets a fleet change, first unseen, and then while some look at the page.
func viewers(ctx context.Context, l *Lab) (samples map[Kind]Sample, err error) {
	s := l.cfg.Scale.Viewers
	f, err := follow(ctx, l.cfg, fleet.Config{Linked: s.Linked, Services: s.Services, Slices: 1, Endpoints: s.Endpoints, Spread: s.Spread, TLS: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	streams, err := openMany(ctx, f.gateway.Addr(), s.ManyScale)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, streams.Close()) }()
	changes := newManyChanges(f.fleet, s.ManyScale)
	sample, err := changes.measure(ctx, f.gateway.Pid(), streams)
	if err != nil {
		return nil, err
	}
	seeing, stop := context.WithCancel(ctx)
	defer stop()
	all := make([]viewer, s.Viewers)
	var looking sync.WaitGroup
	for i := range all {
		looking.Go(func() { all[i].look(seeing, f.gateway.MetricsAddr()) })
	}
	seen, err := newManyChanges(f.fleet, s.ManyScale).measure(ctx, f.gateway.Pid(), streams)
	stop()
	looking.Wait()
	for _, v := range all {
		err = errors.Join(err, v.err)
		sample["lists"] += float64(v.lists) / s.Over.Seconds() / float64(s.Viewers)
		sample["kilobytes"] += float64(v.bytes) / 1000 / s.Over.Seconds() / float64(s.Viewers)
	}
	if err != nil {
		return nil, err
	}
	sample["cost"] = seen["share"] - sample["share"]
	return map[Kind]Sample{Gateway: sample}, nil
}

// viewer asks as the page's script does.
type viewer struct {
	lists, bytes int
	err          error // that has ended it
}

// look asks for the four lists until the context ends, a second after it has them.
func (v *viewer) look(ctx context.Context, addr string) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	etags := map[string]string{}
	for {
		for _, list := range []string{"clusters", "services", "streams", "events"} {
			if err := v.ask(ctx, client, "http://"+addr+"/debug/"+list+"?view=list&limit=50", etags); err != nil {
				if ctx.Err() == nil {
					v.err = err
				}
				return
			}
		}
		if poll.Pause(ctx, time.Second) != nil {
			return
		}
	}
}

func (v *viewer) ask(ctx context.Context, client *http.Client, url string, etags map[string]string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("If-None-Match", etags[url])
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusOK:
		v.lists, v.bytes, etags[url] = v.lists+1, v.bytes+int(n), answer.Header.Get("ETag")
	case answer.StatusCode != http.StatusNotModified:
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}
