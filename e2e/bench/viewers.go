package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"isthmus/e2e/harness"
)

// ViewersScale contains the size of a fleet with changes, and the number of people who view the
// page.
type ViewersScale struct {
	ManyScale
	Viewers int
}

// viewers returns a trial in which a fleet changes, first without and then with viewers of the
// page.
func viewers(s Scale) Trial {
	c := s.Viewers
	return Trial{
		Name: "viewers", Claims: overview, repeats: 1, fleet: c.fleet,
		Figures: []Figure{
			{Key: "unseen", Label: "CPU without viewers", Unit: "%"},
			{Key: "cost", Label: "additional CPU with ten viewers", Unit: "%", Max: 5},
		},
		do: func(r *run) {
			at := r.start()
			m := c.meter(at)
			m.happen(c.ManyScale)
			unseen := r.samples[r.kind]["share"]
			ctx, stop := context.WithCancel(r.ctx)
			defer stop()
			all := make([]viewer, c.Viewers)
			var looking sync.WaitGroup
			for i := range all {
				looking.Go(func() { all[i].look(ctx, at.admin) })
			}
			m.happen(c.ManyScale)
			stop()
			looking.Wait()
			r.set("unseen", unseen)
			r.set("cost", r.samples[r.kind]["share"]-unseen)
			for _, v := range all {
				check(v.err)
			}
		},
	}
}

// viewer sends the same requests as the page's script.
type viewer struct {
	err error // error that ended the viewer
}

// look requests the four lists repeatedly until the context ends, with a pause of a second.
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
		if harness.Pause(ctx, time.Second) != nil {
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
	_, err = io.Copy(io.Discard, answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusOK:
		etags[url] = answer.Header.Get("ETag")
	case answer.StatusCode != http.StatusNotModified:
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}
