package links

import (
	"cmp"
	"context"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore"
)

// domains are a cluster's trust domain and cluster domain.
type domains struct{ trust, cluster string }

const defaultDomain = "cluster.local"

// chooseDomains returns the domains of a link: by flags, or else as the link has them, or
// else as the Linkerd of its cluster does.
func (o *linkOptions) chooseDomains(ctx context.Context, w *work, there *cluster, existing *corev1.Secret) domains {
	d := domains{o.trustDomain, o.clusterDomain}
	if existing != nil {
		d.trust = cmp.Or(d.trust, existing.Annotations[clusterstore.TrustDomainAnnotation])
		d.cluster = cmp.Or(d.cluster, existing.Annotations[clusterstore.ClusterDomainAnnotation])
	}
	if d.trust != "" && d.cluster != "" {
		return d
	}
	installed := readDomains(ctx, w, there, o.Namespace)
	return domains{cmp.Or(d.trust, installed.trust, defaultDomain), cmp.Or(d.cluster, installed.cluster, defaultDomain)}
}

// readDomains reads the domains that Linkerd was installed with, from the namespace of its control
// plane. This is the namespace that -n names, or else Linkerd's own, since Isthmus may run beside
// Linkerd.
func readDomains(ctx context.Context, w *work, c *cluster, namespace string) domains {
	const own, name = "linkerd", "linkerd-config"
	config, err := c.API.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && namespace != own {
		config, err = c.API.ConfigMaps(own).Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		w.warn("%s has no ConfigMap %s/%s of a Linkerd: its domains are taken to be %s (--trust-domain, --cluster-domain)", c.title, namespace, name, defaultDomain)
		return domains{}
	case err != nil:
		w.warn("%v: its domains are taken to be %s (--trust-domain, --cluster-domain)", c.failed("read ConfigMap "+namespace+"/"+name, err), defaultDomain)
		return domains{}
	}
	return parseDomains(config.Data["values"])
}

// maxValues bounds the values of a Linkerd install that are read, in bytes.
const maxValues = 256 << 10

// parseDomains reads the values of a Linkerd install. What can't be read or used is left out. The text is parsed,
// and not decoded: that would copy what each YAML alias stands for, and compare each key with all others.
func parseDomains(text string) (d domains) {
	var document yaml.Node
	if len(text) > maxValues || yaml.Unmarshal([]byte(text), &document) != nil || len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return d
	}
	values := document.Content[0].Content
	for i := 0; i+1 < len(values); i += 2 {
		if values[i+1].Kind != yaml.ScalarNode {
			continue
		}
		switch values[i].Value {
		case "identityTrustDomain":
			d.trust = domain(values[i+1].Value)
		case "clusterDomain":
			d.cluster = domain(values[i+1].Value)
		}
	}
	return d
}

func domain(text string) string {
	if len(validation.IsDNS1123Subdomain(text)) > 0 {
		return ""
	}
	return text
}
