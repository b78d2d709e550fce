package main_test

import (
	"bytes"
	"crypto/x509"
	"debug/buildinfo"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"isthmus/e2e/harness"
)

type image struct {
	layout string
	index  content // the only entry of the layout
	config imageConfig
	digest string // digest of the configuration
	files  map[string]file
	built  *debug.BuildInfo // build information of the program
}

func readImage(t *testing.T, layout string) image {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(layout, "index.json"))
	must(t, err)
	type list struct{ Manifests []content }
	only := func(text []byte) content {
		l := parse[list](t, text)
		if len(l.Manifests) != 1 {
			t.Fatalf("there is not one manifest: %s", text)
		}
		return l.Manifests[0]
	}
	i := image{layout: layout, index: only(text), files: make(map[string]file)}
	described := only(blob(t, layout, i.index))
	manifest := parse[struct {
		Config content
		Layers []content
	}](t, blob(t, layout, described))
	i.config, i.digest = parse[imageConfig](t, blob(t, layout, manifest.Config)), manifest.Config.Digest
	if got := described.Platform["os"] + "/" + described.Platform["architecture"]; got != thisPlatform ||
		i.config.OS+"/"+i.config.Architecture != got {
		t.Errorf("platform %s, %s/%s", got, i.config.OS, i.config.Architecture)
	}
	for n, layer := range manifest.Layers {
		maps.Copy(i.files, unpack(t, blob(t, layout, layer), i.config.RootFS.DiffIDs[n]))
	}
	i.built, err = buildinfo.Read(bytes.NewReader(i.files["isthmus"].data))
	must(t, err)
	return i
}

// TestImage checks the image from make image: its contents, that docker loads it, and that it runs
// with the settings in manifests/install. TestLoad covers machines without docker, and TestRelease
// compares the builds of two clones.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	sources(t, dir)
	commit := commitAll(t, dir)
	loaded := filepath.Join(t.TempDir(), "loaded.tar")
	docker := `case $1 in version) echo ` + thisPlatform + `;; load) cat >` + loaded + `;; esac`
	args := []string{"image", "PLATFORMS=" + thisPlatform, "IMAGE=registry.example.com/isthmus:v1"}
	printed := makes(t, dir, docker, args...)

	i := readImage(t, filepath.Join(dir, "out/image/layout"))
	if !strings.Contains(printed, i.index.Digest) || !strings.Contains(printed, "loaded for "+thisPlatform) {
		t.Errorf("printed:\n%s", printed)
	}
	checkLoaded(t, loaded, i)
	checkConfig(t, i, commit)
	checkFiles(t, i)
	checkBill(t, i, filepath.Join(dir, "out/image", "isthmus-"+strings.ReplaceAll(thisPlatform, "/", "-")))
	checkRuns(t, i, commit)
}

func sameFiles(t *testing.T, one, other string) {
	t.Helper()
	sums := func(dir string) map[string]string {
		all := make(map[string]string)
		must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			all[strings.TrimPrefix(path, dir)] = digest(data)
			return err
		}))
		return all
	}
	a, b := sums(one), sums(other)
	if len(a) < 5 {
		t.Errorf("only %v is there", a)
	}
	if !maps.Equal(a, b) {
		t.Errorf("two builds of one commit differ:\n%v\n%v", a, b)
	}
}

// checkLoaded checks that docker received the image under the right name.
func checkLoaded(t *testing.T, path string, i image) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "tar", "xOf", path, "manifest.json")
	loaded := parse[[]struct {
		Config   string
		RepoTags []string
	}](t, []byte(output(t, cmd)))
	if len(loaded) != 1 || loaded[0].Config != i.digest ||
		!slices.Equal(loaded[0].RepoTags, []string{"registry.example.com/isthmus:v1"}) {
		t.Errorf("docker was given %+v, not %s", loaded, i.digest)
	}
}

// checkConfig checks that the image runs as the user from manifests/install, and that its labels
// contain the commit and the time.
func checkConfig(t *testing.T, i image, commit string) {
	t.Helper()
	c := i.config.Config
	var d appsv1.Deployment
	text, err := os.ReadFile("../../../manifests/install/deployment.yaml")
	must(t, err)
	must(t, yaml.UnmarshalStrict(text, &d))
	if user := d.Spec.Template.Spec.SecurityContext; *user.RunAsUser != 65532 || *user.RunAsGroup != 65532 ||
		c.User != "65532:65532" {
		t.Errorf("user %s; the Deployment has %d:%d", c.User, *user.RunAsUser, *user.RunAsGroup)
	}
	if !slices.Equal(c.Entrypoint, []string{"/isthmus"}) || len(c.Cmd) > 0 || c.WorkingDir != "/" {
		t.Errorf("entry point %q, command %q, in %q", c.Entrypoint, c.Cmd, c.WorkingDir)
	}
	for label, want := range map[string]string{"revision": commit, "version": "v1", "created": i.config.Created} {
		if got := c.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, not %q", label, got, want)
		}
	}
	if i.config.Created != "2026-01-02T03:04:05Z" {
		t.Errorf("created %s", i.config.Created)
	}
	if names := i.index.Annotations; names["io.containerd.image.name"] != "registry.example.com/isthmus:v1" ||
		names["org.opencontainers.image.ref.name"] != "v1" {
		t.Errorf("the layout's names: %v", names)
	}
}

// checkFiles checks that the image's files are read-only and that there are no other files, such as
// a shell.
func checkFiles(t *testing.T, i image) {
	t.Helper()
	for name, f := range i.files {
		h, known := f.header, name == "isthmus.cdx.json" || name == "etc/ssl/certs/ca-certificates.crt" ||
			strings.HasPrefix(name, "licenses/")
		want := fs.FileMode(0o444)
		switch {
		case h.FileInfo().IsDir():
			want, known = fs.ModeDir|0o755, true
		case name == "isthmus":
			want, known = 0o555, true
		}
		if !known || h.FileInfo().Mode() != want || h.Uid != 0 || h.Gid != 0 ||
			h.ModTime.UTC().Format("2006-01-02T15:04:05Z") != i.config.Created {
			t.Errorf("%s: %v of %d:%d, of %v", name, h.FileInfo().Mode(), h.Uid, h.Gid, h.ModTime)
		}
	}
	roots := x509.NewCertPool()
	if text := i.files["etc/ssl/certs/ca-certificates.crt"].data; !roots.AppendCertsFromPEM(text) ||
		bytes.Count(text, []byte("BEGIN CERTIFICATE")) < 80 {
		t.Errorf("%d bytes of root certificates", len(text))
	}
}

// checkBill checks that the SBOM lists all modules of the program, and that the image contains a
// license for each.
func checkBill(t *testing.T, i image, binary string) {
	t.Helper()
	type component struct{ Name, Version, Purl string }
	text := i.files["isthmus.cdx.json"].data
	bill := parse[struct {
		BOMFormat, SpecVersion string
		Metadata               struct{ Component component }
		Components             []component
		Dependencies           []struct {
			Ref       string
			DependsOn []string
		}
	}](t, text)
	if beside, err := os.ReadFile(binary + ".cdx.json"); err != nil || !bytes.Equal(beside, text) {
		t.Errorf("the SBOM beside the image is another one: %v", err)
	}
	want := []string{"std " + strings.TrimPrefix(i.built.GoVersion, "go")}
	for _, m := range i.built.Deps {
		want = append(want, m.Path+" "+m.Version)
	}
	var got []string
	refs := []string{bill.Metadata.Component.Purl}
	for _, c := range bill.Components {
		got, refs = append(got, c.Name+" "+c.Version), append(refs, c.Purl)
		if !slices.ContainsFunc(
			slices.Collect(maps.Keys(i.files)),
			func(name string) bool { return strings.HasPrefix(name, "licenses/"+c.Name+"/LICEN") },
		) {
			t.Errorf("no license of %s", c.Name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the SBOM lists\n%v\nand the program has\n%v", got, want)
	}
	if main := bill.Metadata.Component; bill.BOMFormat != "CycloneDX" || main.Name != "isthmus" ||
		main.Version != "v1" {
		t.Errorf("%s, %+v", bill.BOMFormat, main)
	}
	used := make(map[string]bool)
	for _, d := range bill.Dependencies {
		for _, ref := range d.DependsOn {
			used[ref] = true
		}
	}
	for _, ref := range refs[1:] {
		if !used[ref] {
			t.Errorf("by the SBOM nothing takes anything from %s", ref)
		}
	}
	if own := i.files["licenses/isthmus/LICENSE"].data; len(own) == 0 {
		t.Error("no license of Isthmus itself")
	}
}

// checkRuns checks that the program runs as the image's user with only the image's files.
func checkRuns(t *testing.T, i image, commit string) {
	t.Helper()
	root := t.TempDir()
	must(t, os.Chmod(root, 0o755)) // readable for the image's user
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		f, path := i.files[name], filepath.Join(root, name)
		if f.header.FileInfo().IsDir() {
			must(t, os.Mkdir(path, 0o755))
			continue
		}
		must(t, os.WriteFile(path, f.data, f.header.FileInfo().Mode()))
	}
	must(t, os.Chmod(root, 0o555))
	defer os.Chmod(root, 0o755) // allows deletion
	var out harness.Tail
	p, err := harness.StartProcess(harness.ProcessConfig{
		Path:   i.config.Config.Entrypoint[0],
		Args:   []string{"version", "--client"},
		Jail:   &harness.Jail{Root: root, User: 65532},
		Output: &out,
	})
	must(t, err)
	<-p.Exited()
	if err := p.Close(); err != nil || !strings.Contains(out.Lines(20), "isthmus v1\n") ||
		!strings.Contains(out.Lines(20), "commit             "+commit+" of 2026-01-02T03:04:05Z\n") {
		t.Errorf("%v\n%s", err, out.Lines(20))
	}
}

// TestBuildWithoutGit checks that sources without git metadata can be built under a given version.
func TestBuildWithoutGit(t *testing.T) {
	dir := t.TempDir()
	sources(t, dir)
	makes(t, dir, noDocker, "build", "VERSION=v1.2.3")
	printed := output(t, exec.CommandContext(t.Context(), filepath.Join(dir, "bin/isthmus"), "version", "--client"))
	if !strings.HasPrefix(printed, "isthmus v1.2.3\n  commit             unknown\n") {
		t.Error(printed)
	}
}
