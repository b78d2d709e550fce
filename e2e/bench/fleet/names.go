package fleet

import (
	"fmt"

	"isthmus/e2e/harness/kube"
)

// Namespace is where all Services are.
const Namespace = "bench"

const nodes, zones = 20, 3 // of clients

// Name returns the name of a cluster, by number: 0 is the local one.
func Name(i int) string { return fmt.Sprintf("c%02d", i) }

// Service returns the name of a Service, by number. All clusters that have it name it so.
func Service(i int) string { return fmt.Sprintf("svc-%05d", i) }

// Federated returns the name of the Service that joins those of a name.
func Federated(service string) string { return service + "-all" }

// Authority returns what a proxy asks for to reach a Service.
func Authority(service string) string { return kube.Authority(Namespace, service) }

// Token returns the context token that a client's proxy sends. Clients are spread over all nodes, and so over the zones.
func Token(i int) string {
	return fmt.Sprintf(`{"ns":"%s", "nodeName":"%s", "pod":"client-%d"}`, Namespace, node(i), i)
}

func node(i int) string { return fmt.Sprintf("node-%02d", i%nodes) }
