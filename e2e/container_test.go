package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/e2e/harness"
	"isthmus/e2e/harness/kube"
)

// accountPath is the directory in which client libraries look for the ServiceAccount's token.
const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

const imageBinary = "/isthmus"

type containerConfig struct {
	Template  corev1.PodTemplateSpec
	Namespace string
	Name      string // name of the Pod
	Container string // name of the container in the template

	Client *kube.Client // client of the Pod's cluster, which issues the token
	CA     []byte       // certificate authority of the cluster
	Binary string       // program for the image, which must be static
	Dir    string       // empty directory for the Pod's files
}

// container runs Isthmus like a container of a Pod, only with what the Pod's template specifies.
// There is no kubelet, so container does its work:
//
//   - The arguments are those of the container with expanded variables. The environment consists of
//     the container's variables, HOSTNAME and the address of the API server.
//   - The file system is a directory that contains the binary and, if mounted, the ServiceAccount's
//     token. It is read-only if the template says so.
//   - The user is the one in the template.
//
// Unknown fields in a template are errors, so that no test passes because a field was ignored.
// Package harness chooses the addresses. There is no memory limit and no /proc. The container must
// be closed after the process has ended.
type container struct {
	args, env []string
	jail      harness.Jail
}

// newContainer prepares a container without starting it.
func newContainer(ctx context.Context, cfg containerConfig) (*container, error) {
	fail := func(err error) (*container, error) {
		return nil, fmt.Errorf("container %s of Pod %s/%s: %w", cfg.Container, cfg.Namespace, cfg.Name, err)
	}
	containers := cfg.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == cfg.Container })
	if i < 0 {
		return fail(errors.New("no such container"))
	}
	c := containers[i]
	if len(c.Command) > 0 || c.WorkingDir != "" {
		return fail(fmt.Errorf("command %q, working directory %q: not supported", c.Command, c.WorkingDir))
	}
	user, err := cfg.user(c)
	if err != nil {
		return fail(err)
	}
	variables, err := cfg.environment(c)
	if err != nil {
		return fail(err)
	}
	p := &container{jail: harness.Jail{Root: cfg.Dir, User: user}}
	for _, arg := range c.Args {
		p.args = append(p.args, variables.expand(arg))
	}
	for _, v := range variables {
		p.env = append(p.env, v.name+"="+v.value)
	}
	if err := cfg.writeFiles(ctx, c); err != nil {
		return fail(err)
	}
	if readOnly := c.SecurityContext != nil && c.SecurityContext.ReadOnlyRootFilesystem != nil &&
		*c.SecurityContext.ReadOnlyRootFilesystem; !readOnly {
		return p, nil
	}
	return p, p.chmod(0o555)
}

// Harness returns the configuration for harness.StartReplica.
func (p *container) Harness() *harness.Container {
	return &harness.Container{Path: imageBinary, Args: p.args, Env: p.env, Jail: p.jail}
}

// Close makes the container's files deletable.
func (p *container) Close() error { return p.chmod(0o755) }

func (p *container) chmod(mode fs.FileMode) error {
	return filepath.WalkDir(p.jail.Root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, mode)
		}
		return err
	})
}

func (cfg containerConfig) user(c corev1.Container) (int, error) {
	own, whole := cmp.Or(
		c.SecurityContext,
		&corev1.SecurityContext{},
	), cmp.Or(
		cfg.Template.Spec.SecurityContext,
		&corev1.PodSecurityContext{},
	)
	user := cmp.Or(own.RunAsUser, whole.RunAsUser)
	switch nonRoot := cmp.Or(own.RunAsNonRoot, whole.RunAsNonRoot); {
	case user == nil || *user == 0:
		return 0, errors.New("the user is root")
	case nonRoot == nil || !*nonRoot:
		return 0, errors.New("runAsNonRoot is not set")
	}
	return int(*user), nil
}

// writeFiles writes the image's file system and the mounted files.
func (cfg containerConfig) writeFiles(ctx context.Context, c corev1.Container) error {
	if err := errors.Join(
		os.Chmod(cfg.Dir, 0o755),
		copyProgram(filepath.Join(cfg.Dir, imageBinary), cfg.Binary),
	); err != nil {
		return err
	}
	for _, m := range c.VolumeMounts {
		if m.MountPath != accountPath {
			return fmt.Errorf("volume %s at %s: not supported", m.Name, m.MountPath)
		}
	}
	token, err := cfg.tokenRequest(c)
	if token == nil || err != nil {
		return err
	}
	account := cmp.Or(cfg.Template.Spec.ServiceAccountName, "default")
	answer, err := cfg.Client.CoreV1().
		ServiceAccounts(cfg.Namespace).
		CreateToken(ctx, account, token, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of ServiceAccount %s: %w", account, err)
	}
	dir := filepath.Join(cfg.Dir, accountPath)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"token":     []byte(answer.Status.Token),
		"ca.crt":    cfg.CA,
		"namespace": []byte(cfg.Namespace),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o444); err != nil {
			return err
		}
	}
	return nil
}

// tokenRequest returns the request for the container's token, or nil if there is no token. The
// token is either the default token of Kubernetes or that of a projected volume.
func (cfg containerConfig) tokenRequest(c corev1.Container) (*authenticationv1.TokenRequest, error) {
	spec := cfg.Template.Spec
	if len(c.VolumeMounts) == 0 {
		if spec.AutomountServiceAccountToken == nil || !*spec.AutomountServiceAccountToken {
			return nil, nil // the tests require the setting in the template
		}
		return &authenticationv1.TokenRequest{}, nil
	}
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == c.VolumeMounts[0].Name })
	if i < 0 || spec.Volumes[i].Projected == nil {
		return nil, fmt.Errorf("volume %s is not a projected volume", c.VolumeMounts[0].Name)
	}
	for _, source := range spec.Volumes[i].Projected.Sources {
		if t := source.ServiceAccountToken; t != nil && t.Path == "token" && t.Audience == "" {
			return &authenticationv1.TokenRequest{
				Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: t.ExpirationSeconds},
			}, nil
		}
	}
	return nil, fmt.Errorf("volume %s has no token", c.VolumeMounts[0].Name)
}

func copyProgram(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// apiServer returns the environment variables with the address of the API server.
func (cfg containerConfig) apiServer() (containerVariables, error) {
	u, err := url.Parse(cfg.Client.Server())
	if err != nil {
		return nil, err
	}
	return containerVariables{{"KUBERNETES_SERVICE_HOST", u.Hostname()}, {"KUBERNETES_SERVICE_PORT", u.Port()}}, nil
}

type containerVariable struct{ name, value string }

type containerVariables []containerVariable

// environment returns the container's environment: the variables that a kubelet adds, followed by
// those from the template.
func (cfg containerConfig) environment(c corev1.Container) (containerVariables, error) {
	all, err := cfg.apiServer()
	if err != nil {
		return nil, err
	}
	all = append(all, containerVariable{"HOSTNAME", cfg.Name})
	if len(c.EnvFrom) > 0 {
		return nil, fmt.Errorf("envFrom: not supported")
	}
	for _, e := range c.Env {
		value := all.expand(e.Value)
		if e.ValueFrom != nil {
			if value, err = cfg.field(e.ValueFrom); err != nil {
				return nil, fmt.Errorf("variable %s: %w", e.Name, err)
			}
		}
		all = append(all, containerVariable{e.Name, value})
	}
	return all, nil
}

func (cfg containerConfig) field(from *corev1.EnvVarSource) (string, error) {
	if from.FieldRef != nil {
		switch from.FieldRef.FieldPath {
		case "metadata.namespace":
			return cfg.Namespace, nil
		case "metadata.name":
			return cfg.Name, nil
		}
	}
	return "", fmt.Errorf("source not supported: %v", from)
}

var variableReference = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_]*\)`)

// expand expands variables of the form $(NAME). Unknown variables are left as they are.
func (all containerVariables) expand(text string) string {
	return variableReference.ReplaceAllStringFunc(text, func(ref string) string {
		for i := len(all) - 1; i >= 0; i-- {
			if "$("+all[i].name+")" == ref {
				return all[i].value
			}
		}
		return ref
	})
}
