package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/cases"
	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

var (
	environments = flag.Int(
		"environments",
		6,
		"number of environments for cases, each with three clusters and a replica",
	)
	company = flag.Int("company", 8, "number of cases that run at the same time in a shared environment")
)

// TestConformance runs every case in testdata/cases. Several cases run in parallel, because they
// mostly wait. Cases that need their own environment run one after the other in each environment.
// All other cases share the first environment, those without links first. Each case is a subtest:
// -run 'TestConformance/^plain-' selects cases, and -v prints their commands.
func TestConformance(t *testing.T) {
	t.Parallel()
	var unlinked, linked, restarts, alone []*cases.Case
	for _, file := range caseFiles(t, "cases") {
		c, err := cases.Load(file)
		must(t, err)
		switch {
		case c.Alone && c.Restarts:
			restarts = append(restarts, c)
		case c.Alone:
			alone = append(alone, c)
		case c.Linked:
			linked = append(linked, c)
		default:
			unlinked = append(unlinked, c)
		}
	}
	// Cases that restart the replica run first. They take the longest, and the other cases need a
	// replica without flags.
	rest := queue(slices.Concat(restarts, alone))
	var players sync.WaitGroup
	for i := range max(1, *environments) {
		s := &stage{t: t}
		players.Go(func() {
			if i == 0 {
				s.playTogether(unlinked)
				s.playTogether(linked)
				s.unlink()
			}
			s.play(rest, cases.Options{})
		})
	}
	players.Wait()
}

func queue(all []*cases.Case) <-chan *cases.Case {
	q := make(chan *cases.Case, len(all))
	for _, c := range all {
		q <- c
	}
	close(q)
	return q
}

// stage is an environment that is started for its first case.
type stage struct {
	t   *testing.T // TestConformance, whose end stops the environment
	set sync.Once
	env cases.Environment
	err error // error of the start
}

func (s *stage) playTogether(all []*cases.Case) {
	var players sync.WaitGroup
	q := queue(all)
	for range max(1, *company) {
		players.Go(func() { s.play(q, cases.Options{Beside: true}) })
	}
	players.Wait()
}

func (s *stage) play(queued <-chan *cases.Case, opt cases.Options) {
	var now *testing.T
	opt.Trace = func(line string) { now.Log(line) }
	var runner *cases.Runner
	for c := range queued {
		s.t.Run(c.Name, func(t *testing.T) {
			s.set.Do(s.setUp)
			if s.err != nil {
				t.Fatalf("start of an environment: %v", s.err)
			}
			if runner == nil {
				var err error
				runner, err = cases.NewRunner(s.env, opt)
				must(t, err)
			}
			now = t
			result := runner.Run(t.Context(), c)
			if result.Err != nil {
				t.Error(result.Err)
			}
		})
	}
	if runner != nil {
		must(s.t, runner.Close())
	}
}

func (s *stage) unlink() {
	if s.env.Gateway == nil {
		return
	}
	k, err := kube.NewClient("west", s.env.Clusters["west"].REST())
	must(s.t, err)
	defer k.Close()
	must(
		s.t,
		k.CoreV1().
			Secrets(kube.LinkNamespace).
			DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
	)
	await(s.t, "no cluster is linked", func() error {
		page, err := harness.ReadClusters(s.t.Context(), s.env.Gateway.MetricsAddr())
		if err == nil && len(page.Clusters) > 0 {
			err = fmt.Errorf("%d clusters are linked", len(page.Clusters))
		}
		return err
	})
}

// oneByOne serializes the start of environments, because a start uses all processors.
var oneByOne sync.Mutex

func (s *stage) setUp() {
	oneByOne.Lock()
	defer oneByOne.Unlock()
	var stop func() error
	if s.env, stop, s.err = cases.Start(s.t.Context(), cases.StartConfig{Dir: s.t.TempDir()}); s.err == nil {
		atEnd(s.t, stop)
	}
}

// caseFiles returns the case files in the directories of testdata that match a pattern.
func caseFiles(t *testing.T, folders string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folders, "*"+cases.Extension))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases found: %v", err)
	}
	return files
}

// TestCaseAddresses checks that no two cases share a Pod address, a cluster IP, an IPv6 address or
// a local network 127.1.X. The objects of one case can briefly exist while another case runs.
func TestCaseAddresses(t *testing.T) {
	address := regexp.MustCompile(`\b10\.(0\.\d+|[1-9]\d*)\.\d+\b|\bfd00:[0-9a-f:]+\b|\b127\.1\.\d+\.`)
	user := map[string]string{}
	for _, file := range caseFiles(t, "cases") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range address.FindAllString(string(text), -1) {
			if other, ok := user[a]; ok && other != file {
				t.Errorf("%s uses %s, like %s", file, a, other)
			}
			user[a] = file
		}
	}
}

// TestCaseFiles checks that all cases can be parsed.
func TestCaseFiles(t *testing.T) {
	for _, file := range caseFiles(t, "*") {
		if _, err := cases.Load(file); err != nil {
			t.Error(err)
		}
	}
}
