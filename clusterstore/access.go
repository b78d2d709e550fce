package clusterstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/kube"
	"isthmus/federation"
	"isthmus/internal/adminapi"
)

// Access describes a link Secret and contains the configuration for requests to its cluster. An
// Access contains credentials, so never show an Access on a page or write one to a log.
type Access struct {
	adminapi.Cluster              // data from the Secret itself
	REST             *rest.Config // nil if the Secret is not used
}

// ReadAccesses parses Secrets as a Store does, and returns one Access per link Secret, oldest
// Secret first. All Secrets must be in the same namespace. ReadAccesses skips Secrets that are not
// link Secrets.
func ReadAccesses(secrets []corev1.Secret) []Access {
	var list []*credentials
	for i := range secrets {
		if secrets[i].Type == SecretType {
			list = append(list, readSecret(&secrets[i], time.Now(), linkSettings{}))
		}
	}
	sortCredentials(list)
	all := make([]Access, 0, len(list))
	for _, c := range list {
		var used *credentials
		if c.cluster != "" {
			used = pick(
				slices.DeleteFunc(slices.Clone(list), func(o *credentials) bool { return o.cluster != c.cluster }), nil,
			)
		}
		a := Access{Cluster: c.describe(used)}
		if used == c {
			a.REST = c.rest
			a.Network = c.settings.network
			a.API = &adminapi.APIServer{Expiry: c.expiry}
		}
		all = append(all, a)
	}
	return all
}

// ListSecrets lists Secrets in pages, because clients limit the size of a response. The limit
// maxSecrets is far above the number of Secrets that a watched namespace contains in practice.
const secretsOfPage, maxSecrets = 200, 4000

// ListSecrets lists the Secrets in a namespace that match the list options. ListSecrets overwrites
// the Limit field of the list options.
func ListSecrets(
	ctx context.Context, api *kube.Clients, namespace string, which metav1.ListOptions,
) (all []corev1.Secret, err error) {
	which.Limit = secretsOfPage
	for range maxSecrets / secretsOfPage { // limits the requests even if a server sends empty pages
		list, err := api.Secrets(namespace).List(ctx, which)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if which.Continue = list.Continue; which.Continue == "" {
			return all, nil
		}
	}
	return nil, fmt.Errorf("there are more than %d", maxSecrets)
}

// AllLinks selects all link Secrets.
var AllLinks = metav1.ListOptions{FieldSelector: "type=" + SecretType}

// String returns the names of the Secret and the cluster. It never contains credentials.
func (a Access) String() string {
	return "Secret " + a.Secret + " for cluster " + federation.ClusterName(a.Cluster.Cluster).String()
}
