package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"isthmus/e2e/scenario"
)

var environments = flag.Int("environments", 3, "run that many cases at the same time, each among clusters of their own")

// TestConformance runs every case of testdata/cases. Cases mostly wait, so several run at the same time, each in another
// environment of three clusters and a gateway, which runs one case after the other. A case is a subtest: -run
// 'TestConformance/^plain-' chooses, -v shows the commands as they run.
func TestConformance(t *testing.T) {
	t.Parallel()
	files := caseFiles(t, "cases")
	queue := make(chan string)
	var players sync.WaitGroup
	for range max(1, *environments) {
		s := &stage{t: t}
		players.Go(func() {
			for file := range queue {
				t.Run(strings.TrimSuffix(filepath.Base(file), scenario.Extension), func(t *testing.T) { s.play(t, file) })
			}
		})
	}
	for _, file := range files {
		queue <- file
	}
	close(queue)
	players.Wait()
}

// stage is an environment that runs one case at a time. It is set up for its first one.
type stage struct {
	t      *testing.T // TestConformance, with which the environment ends
	runner *scenario.Runner
	err    error // it could not be set up

	now *testing.T // the case
}

func (s *stage) play(t *testing.T, file string) {
	c, err := scenario.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	s.now = t
	if s.runner == nil && s.err == nil {
		s.err = s.setUp()
	}
	if s.err != nil {
		t.Fatalf("clusters and a gateway: %v", s.err)
	}
	result := s.runner.Run(t.Context(), c)
	if result.Skipped != "" { // this environment has all that cases need
		t.Errorf("not run: %s", result.Skipped)
	}
	if result.Err != nil {
		t.Error(result.Err)
	}
}

// oneByOne lets environments start one after the other: they take all of a machine while they do.
var oneByOne sync.Mutex

func (s *stage) setUp() error {
	oneByOne.Lock()
	defer oneByOne.Unlock()
	env, stop, err := scenario.Start(s.t.Context(), scenario.StartConfig{Dir: s.t.TempDir()})
	if err != nil {
		return err
	}
	s.t.Cleanup(func() {
		if err := stop(); err != nil {
			s.t.Error(err)
		}
	})
	s.runner, err = scenario.NewRunner(env, scenario.Options{Trace: func(line string) { s.now.Log(line) }})
	if err != nil {
		return err
	}
	s.t.Cleanup(func() {
		if err := s.runner.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return nil
}

// caseFiles returns the files of the cases in folders of testdata that match a pattern.
func caseFiles(t *testing.T, folders string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folders, "*"+scenario.Extension))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases found: %v", err)
	}
	return files
}

// TestCaseAddresses: no two cases share an address of a pod, a cluster IP, an IPv6 address, or a network 127.1.X of this machine. What one leaves behind
// for a moment does not meet the next.
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
				t.Errorf("%s has %s, and so has %s", file, a, other)
			}
			user[a] = file
		}
	}
}

// TestCaseFiles: all cases can be read.
func TestCaseFiles(t *testing.T) {
	for _, file := range caseFiles(t, "*") {
		if _, err := scenario.Load(file); err != nil {
			t.Error(err)
		}
	}
}
