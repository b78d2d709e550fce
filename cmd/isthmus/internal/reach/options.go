package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plugins that kubeconfigs may name
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"isthmus/clusterstore/kube"
	"isthmus/internal/guard"
	"isthmus/internal/text"
)

// Options select a cluster and its replicas. The flags that select the cluster have the same names
// as the corresponding kubectl flags.
type Options struct {
	Kubeconfig, Context string
	Namespace           string // namespace of the replicas
	Pod                 string // name of the only replica; empty for all replicas
	Address             string // HOST:PORT of the only replica, used without a request to a cluster
	// ContextFlag is the flag that messages recommend for setting Context. The default is
	// --context.
	ContextFlag string
	// AddressFlag is the flag that messages recommend for setting the address of a replica.
	// AddressFlag is empty if the command does not accept an address.
	AddressFlag string
}

func (o *Options) contextFlag() string { return cmp.Or(o.ContextFlag, "--context") }

// straight returns a hint about AddressFlag, or "" if the command does not accept an address.
func (o *Options) straight(hint string) string {
	if o.AddressFlag == "" {
		return ""
	}
	return hint + o.AddressFlag
}

// Flags defines the flags that set the options.
func (o *Options) Flags(s *pflag.FlagSet) {
	o.ClusterFlags(s, "context")
	o.PodFlag(s)
}

// ClusterFlags defines the flags that select the cluster. The context argument is the name of the
// flag that selects the kubeconfig context.
func (o *Options) ClusterFlags(s *pflag.FlagSet, context string) {
	o.ContextFlag = "--" + context
	s.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"Kubeconfig `FILE`. "+
			"The default is $KUBECONFIG, or else ~/.kube/config, or else the Pod's ServiceAccount.")
	s.StringVar(&o.Context, context, "", "`CONTEXT` of the local cluster. The default is the current context.")
	s.StringVarP(&o.Namespace, "namespace", "n", "linkerd",
		"`NAMESPACE` that contains the Isthmus Pods and the link Secrets.")
}

// PodFlag defines the flag that selects one replica of the cluster.
func (o *Options) PodFlag(s *pflag.FlagSet) {
	s.StringVar(&o.Pod, "pod", "", "`NAME` of the Pod to query. The default is all ready replicas.")
}

// AddAddressFlag defines the flag that sets the address of a replica.
func (o *Options) AddAddressFlag(s *pflag.FlagSet, name, usage string) {
	o.AddressFlag = "--" + name
	s.StringVar(&o.Address, name, "",
		usage+" By default, the command uses the kubeconfig to find replicas, and connects through the API server.")
}

// Open reads the kubeconfig without sending a request. The caller must close the Cluster.
func (o *Options) Open() (*Cluster, error) {
	config, chosen, err := o.load()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Context: chosen, options: *o, config: config, forwarders: make(map[string]*forwarder)}
	if c.API, c.close, err = Clients(config); err != nil {
		return nil, unreadable(fmt.Errorf("context %s: %w", chosen, err))
	}
	c.lifetime, c.end = context.WithCancel(context.Background())
	return c, nil
}

// load returns the client configuration of the cluster and the name of the kubeconfig context. If
// the process uses the ServiceAccount of its Pod, the context name is empty. Clients with this
// configuration are subject to the limits of [Guard].
func (o *Options) load() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.WarnIfAllMissing = false
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: o.Context})
	kubeconfig, err := loader.RawConfig()
	if err != nil {
		return nil, "", unreadable(err)
	}
	chosen, err := o.chosen(&kubeconfig)
	if err != nil {
		return nil, "", err
	}
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "",
			errors.New("no kubeconfig: neither $KUBECONFIG nor ~/.kube/config exists\n  Choose a file with " +
				"--kubeconfig" + o.straight(", or connect to a replica directly with "))
	case err != nil:
		return nil, "", unreadable(err)
	}
	// Load the certificate files now, because client-go would otherwise start a goroutine that
	// checks whether the files have changed.
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, "", unreadable(err)
	}
	config.UserAgent = kube.UserAgent()
	config.QPS = -1 // no client-side rate limit, because a command sends few requests
	Guard(config)
	return config, chosen, nil
}

// Guard protects clients that are created from the config against the responses of untrusted API
// servers. [guard.Transport] limits the size of responses. Clients accept only JSON and do not
// print warnings from the API server.
func Guard(config *rest.Config) {
	config.WarningHandler = rest.NoWarnings{}
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.Wrap(guard.Transport)
}

// chosen returns the name of the kubeconfig context to use. If no context is selected and the
// kubeconfig does not contain any contexts, the result is "".
func (o *Options) chosen(kubeconfig *api.Config) (string, error) {
	name := o.Context
	if name == "" {
		name = kubeconfig.CurrentContext
	}
	known := slices.Sorted(maps.Keys(kubeconfig.Contexts))
	switch {
	case kubeconfig.Contexts[name] != nil, name == "" && len(known) == 0:
		return name, nil
	case name == "":
		return "", fmt.Errorf("the kubeconfig has no current context\n  Choose a context with %s: %s",
			o.contextFlag(), some(known))
	case len(known) == 0:
		return "", fmt.Errorf("the kubeconfig contains no contexts, so context %s cannot be used\n"+
			"  Choose another file with --kubeconfig",
			text.Quoted(name))
	}
	return "", fmt.Errorf("the kubeconfig has no context %s\n  Choose a context with %s: %s",
		text.Quoted(name), o.contextFlag(), some(known))
}

var quoted = regexp.MustCompile("`[^`]*`")

// unreadable removes quoted parts of the file from the error, because they may contain credentials.
func unreadable(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("kubeconfig: %s\n  Choose a readable file with --kubeconfig or $KUBECONFIG",
			text.Quoted(path.Error()))
	}
	return fmt.Errorf("kubeconfig: %s\n  Correct the file, or choose another file with --kubeconfig",
		text.Quoted(quoted.ReplaceAllString(err.Error(), "…")))
}

func some(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = text.Quoted(n)
	}
	return text.Some(quoted, 10)
}
