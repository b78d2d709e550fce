package scripts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// With this variable the test's binary is a stand-in for the program of its name. Its value is the folder of the model.
const modelVariable = "TEST_MODEL"

func TestMain(m *testing.M) {
	dir := os.Getenv(modelVariable)
	if dir == "" {
		goleak.VerifyTestMain(m)
		return
	}
	s := standIn{dir: dir, name: filepath.Base(os.Args[0]), args: os.Args[1:]}
	code, err := s.run()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
	}
	os.Exit(code)
}

// standIn is one call of a program. The model is a folder: clusters/NAME has the address of a cluster's node, or is empty if
// it is killed; networks, images, routes/NODE/NETWORK, links/NAME and the image of the gateway in west are files too.
type standIn struct {
	dir, name string
	args      []string
}

func (s standIn) path(parts ...string) string {
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "/", "_")
	}
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s standIn) read(parts ...string) string {
	text, _ := os.ReadFile(s.path(parts...))
	return string(text)
}

func (s standIn) write(text string, parts ...string) error {
	if err := os.MkdirAll(filepath.Dir(s.path(parts...)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(s.path(parts...), []byte(text), 0o644)
}

func (s standIn) has(parts ...string) bool {
	_, err := os.Stat(s.path(parts...))
	return err == nil
}

func (s standIn) list(kind string) (names []string) {
	entries, _ := os.ReadDir(s.path(kind))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// run returns the exit code. What a call is to do, by a part of its text, is in files of the model: fail before it, or hang
// after it.
func (s standIn) run() (int, error) {
	if s.name == "date" { // five seconds pass between two looks at it
		now, _ := strconv.Atoi(s.read("now"))
		fmt.Println(now)
		return 0, s.write(strconv.Itoa(now+5), "now")
	}
	call := strings.Join(append([]string{s.name}, s.args...), " ")
	log, err := os.OpenFile(s.path("calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(log, call)
	if err := log.Close(); err != nil {
		return 1, err
	}
	if part := s.read("fail"); part != "" && strings.Contains(call, part) {
		return 1, errors.New("it is asked to fail")
	}
	err = s.act()
	if part := s.read("hang"); part != "" && strings.Contains(call, part) {
		if err := errors.Join(os.Remove(s.path("hang")), s.write("", "hanging")); err != nil {
			return 1, err
		}
		select {} // until a signal ends it
	}
	if s.name == "isthmus" && errors.Is(err, errNotWell) {
		return 1, nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

var errNotWell = errors.New("something is wrong")

// known is a call that a stand-in knows: its words, of which * is any, and what it does with those.
type known struct {
	words string
	do    func(s standIn, a []string) error
}

// act finds the call among those that are known.
func (s standIn) act() error {
	for _, k := range programs[s.name] {
		pattern := regexp.QuoteMeta(k.words)
		pattern = "^" + strings.ReplaceAll(pattern, `\*`, "([^\x00]*)") + "$"
		pattern = strings.ReplaceAll(pattern, " ", "\x00")
		if m := regexp.MustCompile(pattern).FindStringSubmatch(strings.Join(s.args, "\x00")); m != nil {
			return k.do(s, m[1:])
		}
	}
	call := strings.Join(append([]string{s.name}, s.args...), " ")
	return errors.Join(fmt.Errorf("the stand-in does not know this call: %s", call), s.write(call, "unknown"))
}

// inContext is an error unless a kubeconfig has a context, whose cluster runs. It returns the cluster.
func (s standIn) inContext(context string) (string, error) {
	found := false
	for _, file := range filepath.SplitList(os.Getenv("KUBECONFIG")) {
		text, err := os.ReadFile(file)
		found = found || err == nil && string(text) == "context "+context+"\n"
	}
	name := strings.TrimPrefix(context, "k3d-")
	switch {
	case !found:
		return "", fmt.Errorf("context %q does not exist", context)
	case s.read("clusters", name) == "":
		return "", fmt.Errorf("the API server of %s does not answer", name)
	}
	return strings.TrimPrefix(name, "isthmus-"), nil
}

func kustomize(dir string) (string, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return "", err
	}
	text, err := built.AsYaml()
	return string(text), err
}

// makeCluster is what k3d does with a config.
func (s standIn) makeCluster(name string) error {
	if s.has("clusters", name) {
		return fmt.Errorf("there is a cluster %s", name)
	}
	if !s.has("networks", "isthmus-demo") {
		return errors.New("there is no docker network isthmus-demo")
	}
	return s.startCluster(name)
}

// startCluster gives a cluster's node an address that no node had before.
func (s standIn) startCluster(name string) error {
	last, _ := strconv.Atoi(s.read("address"))
	return errors.Join(s.write(strconv.Itoa(last+1), "address"), s.write(fmt.Sprintf("172.30.0.%d", last+1), "clusters", name))
}

func (s standIn) nodeOf(container string) (string, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(container, "k3d-"), "-server-0")
	if s.read("clusters", name) == "" {
		return "", fmt.Errorf("container %s does not run", container)
	}
	return name, nil
}

// states returns the table of isthmus clusters, and whether all is well.
func (s standIn) states() (string, bool) {
	table, well := "CLUSTER STATE SINCE\nwest    ready 1m\n", true
	for _, name := range s.list("links") {
		state := "ready"
		if address := s.read("clusters", "isthmus-"+name); address == "" || address != s.read("links", name) {
			state, well = "stale", false
		}
		table += fmt.Sprintf("%-7s %s 1s\n", name, state)
	}
	return table, well
}

// reached is an error unless there are routes to the Pods of a cluster from those that its address is needed in.
func (s standIn) reached(from, to, network string) error {
	if via, want := s.read("routes", "isthmus-"+from, network), s.read("clusters", "isthmus-"+to); via != want || via == "" {
		return fmt.Errorf("there is no route from %s to %s: it goes to %q, not %q", from, network, via, want)
	}
	return nil
}

func contains(list []string, name string) error {
	if !slices.Contains(list, name) {
		return fmt.Errorf("there is no %s", name)
	}
	return nil
}
