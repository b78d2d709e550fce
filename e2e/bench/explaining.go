package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"isthmus/e2e/admin"
	"isthmus/e2e/bench/fleet"
	"isthmus/e2e/bench/load"
	"isthmus/e2e/bench/proc"
	"isthmus/e2e/bench/world"
)

// explaining is the trial while it runs.
type explaining struct {
	*followed
	scale   ExplainScale
	streams *load.Load
	next    int // Service that is changed
}

// warm is how many times as fast services change before anything is measured: until the heap is as large as the collector
// lets it become.
const warm = 5

// measure makes all blocks.
func (x *explaining) measure(ctx context.Context) (map[Kind]Sample, error) {
	if err := x.warmUp(ctx); err != nil { // what opening the streams took is to be gone
		return nil, err
	}
	before, err := admin.Heap(ctx, x.gateway.MetricsAddr())
	if err != nil {
		return nil, err
	}
	if err := x.warmUp(ctx); err != nil {
		return nil, err
	}
	blocks := map[bool][]Sample{}
	for i := range 2*x.scale.Blocks + 1 {
		explained := i%2 == 1
		b, err := x.block(ctx, explained)
		if err != nil {
			return nil, err
		}
		blocks[explained] = append(blocks[explained], b)
	}
	after, err := admin.Heap(ctx, x.gateway.MetricsAddr())
	if err != nil {
		return nil, err
	}
	without, with := combine(blocks[false], slices.Max[[]float64]), combine(blocks[true], median)
	// What has been resident stays so for minutes: only the block before the first explanation has had none.
	without["peak"] = blocks[false][0]["peak"]
	without["heap"], with["heap"] = megabytes(uint64(before)), megabytes(uint64(after))
	return map[Kind]Sample{Floor: without, Gateway: with}, nil
}

func (x *explaining) warmUp(ctx context.Context) error {
	_, err := x.changesUnder(ctx, warm)
	return errors.Join(err, settle(ctx, x.streams))
}

// combine combines what blocks have of each key.
func combine(blocks []Sample, by func([]float64) float64) Sample {
	all := Sample{}
	for key := range blocks[0] {
		var values []float64
		for _, b := range blocks {
			values = append(values, b[key])
		}
		all[key] = by(values)
	}
	return all
}

// block lets services change for a while, and returns what that was like.
func (x *explaining) block(ctx context.Context, explained bool) (Sample, error) {
	had := map[string]int{}
	x.streams.Arrivals(func(to load.Target, at []time.Time) { had[to.Authority] = len(at) })
	m, err := startPeakMeter(x.gateway.Pid(), x.streams)
	if err != nil {
		return nil, err
	}
	asked := x.ask(ctx, explained)
	written, err := x.changesUnder(ctx, 1)
	answers, failed := asked.end()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	cpu, err := m.cpu()
	if err != nil {
		return nil, err
	}
	took := time.Since(m.began)
	if err := settle(ctx, x.streams); err != nil {
		return nil, err
	}
	peak, err := proc.Peak(m.pid)
	if err != nil {
		return nil, err
	}
	delays, err := lastDelays(x.streams, written, had)
	if err != nil {
		return nil, err
	}
	s := Sample{
		"p50": percentile(delays, 50), "p99": percentile(delays, 99), "most": delays[len(delays)-1],
		"share": share(cpu, took), "peak": megabytes(peak),
		"bytes": m.bytes() / float64(m.messages()),
	}
	if explained {
		s["rate"], s["took"] = float64(len(answers))/took.Seconds(), median(answers)
	}
	return s, nil
}

// asked is what asks for explanations.
type asked struct {
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu    sync.Mutex
	took  []float64 // milliseconds that each answer took
	wrong error
}

// ask asks for explanations, until end, if it is to.
func (x *explaining) ask(ctx context.Context, explained bool) *asked {
	a := &asked{}
	ctx, a.cancel = context.WithCancel(ctx)
	if !explained {
		return a
	}
	_, authority := fleet.Service(x.scale.Services, true)
	for i := range askers {
		page := "http://" + x.gateway.MetricsAddr() + "/debug/explain?" + url.Values{"authority": {authority}, "token": {world.Token(i)}}.Encode()
		a.running.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				began := time.Now()
				n, err := addresses(ctx, client, page)
				if want := 2 * x.scale.Large * 100; err == nil && n != want {
					err = fmt.Errorf("%d addresses are explained, not %d", n, want)
				}
				if ctx.Err() == nil {
					a.answered(time.Since(began), err)
				}
			}
		})
	}
	return a
}

// answered notes an answer.
func (a *asked) answered(took time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took = append(a.took, milliseconds(took))
	if err != nil {
		a.wrong = err
		a.cancel()
	}
}

// end stops asking, and returns how long each answer has taken.
func (a *asked) end() ([]float64, error) {
	a.cancel()
	a.running.Wait()
	return a.took, a.wrong
}

// addresses asks for an explanation, and returns how many addresses it has. It keeps none of it, so that the gateway has the
// machine.
func addresses(ctx context.Context, client *http.Client, page string) (n int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("an explanation: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if bytes.HasPrefix(bytes.TrimLeft(lines.Bytes(), " "), []byte(`"slice":`)) {
			n++
		}
	}
	return n, lines.Err()
}
