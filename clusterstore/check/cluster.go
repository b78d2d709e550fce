package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/guard"
	"isthmus/clusterstore/kube"
	"isthmus/federation"
)

// Limits of one cluster.
const (
	firstAnswer  = 3 * time.Second // until its API server has answered at all
	clusterLimit = 8 * time.Second // for all its checks
)

// kinds are the custom resources that are read.
var kinds = []schema.GroupVersionResource{
	crd.ProfileVersion.WithResource("serviceprofiles"),
	crd.PolicyVersion.WithResource("servers"),
	crd.WorkloadVersion.WithResource("externalworkloads"),
}

// look is the checks of one cluster's API server.
type look struct {
	// fixed
	cluster   federation.ClusterName
	namespace string // of the control plane
	rest      *rest.Config
	rights    []Right
	account   string // whose rights they are; empty: those of the credentials
	pre       bool   // the account need not be there yet
	kinds     []schema.GroupVersionResource
	manifest  string // that grants the rights
	on        string // the network of its Pods
	report    *Report

	client *kube.Client

	// What comes out, for comparison with others:
	answers    bool
	refused    bool // the API server takes the credentials for nobody's
	anchors    anchors
	anchorsErr error
	network    network
	networkErr error
}

// name is the cluster's, for results.
func (l *look) name() string { return l.cluster.String() }

func (l *look) add(section, check string, level Level, text, hint string) {
	l.report.Add(Result{Section: section, Check: check, Object: l.name(), Level: level, Text: text, Hint: hint})
}

// run asks the API server. What it finds is in the report, or in the fields of l.
func (l *look) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, clusterLimit)
	defer cancel()
	client, err := kube.New(l.cluster, l.rest, nil)
	if err != nil {
		l.add(sectionAPI, API, Failure, "no client can be made of its credentials: "+err.Error(), "check the certificates in its kubeconfig")
		l.skip("its API server can't be asked")
		return
	}
	defer client.Close()
	l.client = client
	if answers, why := l.ask(ctx); !answers {
		l.skip(why)
		return
	}
	l.answers = true
	l.checkRights(ctx)
	l.checkKinds(ctx)
	l.anchors, l.anchorsErr = readAnchors(ctx, client.Clients, l.namespace)
	l.network, l.networkErr = readNetwork(ctx, client.Sources.NodeRanges, l.name())
}

// ask returns whether the API server answers or else why more need not be asked, and reports
// that, its version and its clock.
func (l *look) ask(ctx context.Context) (answers bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	v, err := l.client.Version(ctx)
	l.refused = v.Status == http.StatusUnauthorized
	switch {
	case err == nil:
		l.add(sectionAPI, API, OK, "its API server answers, version "+v.GitVersion, "")
	case !v.Date.IsZero() && ctx.Err() == nil: // it refuses, and has a clock
		l.add(sectionAPI, API, Failure, err.Error(), l.hintOfServer("check what the kubeconfig's server is, and whether its credentials are still good"))
	default:
		hint := "check the address and the network between the two"
		if invalid, authority := guard.Certificate(err); invalid != "" {
			err, hint = errors.New("its certificate is not good: "+invalid), "check that the address is the API server's, and by which name its certificate is good"
			if authority {
				hint = "correct the certificate authority of the kubeconfig, or the address if it is not the API server's"
			}
		} else if ctx.Err() != nil {
			err = fmt.Errorf("no answer within %v", firstAnswer)
		}
		l.add(sectionAPI, API, Failure, "its API server can't be reached: "+err.Error(), l.hintOfServer(hint))
		l.add(sectionAPI, ClockSkew, Unchecked, "its API server does not answer", "")
		return false, "its API server does not answer"
	}
	l.checkClock(v)
	return err == nil, "its API server answers with an error"
}

func (l *look) hintOfServer(hint string) string {
	if l.cluster == federation.Local {
		return hint + "; see --kubeconfig"
	}
	return fmt.Sprintf("%s; to renew the link: isthmus link %s --context CONTEXT --apply", hint, l.name())
}

// checkKinds reports which custom resources the API server does not have.
func (l *look) checkKinds(ctx context.Context) {
	if len(l.kinds) == 0 {
		return
	}
	var absent []string
	for _, k := range l.kinds {
		served, err := l.client.Serves(ctx, k)
		if err != nil {
			l.unchecked(sectionAPI, CRDs, err, "")
			return
		}
		if !served {
			absent = append(absent, k.GroupResource().String())
		}
	}
	if len(absent) > 0 {
		l.add(sectionAPI, CRDs, Warning, "not installed: "+strings.Join(absent, ", "), "install Linkerd's CRDs: linkerd install --crds | kubectl apply -f -")
		return
	}
	l.add(sectionAPI, CRDs, OK, "Linkerd's CRDs are installed", "")
}

// unchecked reports that a check has no answer.
func (l *look) unchecked(section, check string, err error, hint string) {
	text := l.printable(err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		text = "no time was left"
	}
	l.add(section, check, Unchecked, text, hint)
}

// printable is the text of an error, without the client's token.
func (l *look) printable(err error) string {
	if l.client == nil {
		return err.Error()
	}
	return l.client.Printable(err).Error()
}

// skip reports what can't be checked since the API server does not answer.
func (l *look) skip(why string) {
	if len(l.rights) > 0 {
		l.add(sectionAPI, Rights, Unchecked, why, "")
	}
	if len(l.kinds) > 0 {
		l.add(sectionAPI, CRDs, Unchecked, why, "")
	}
	l.anchorsErr, l.networkErr = errors.New(why), errors.New(why)
}

// mayNotRead returns the level, text and hint of what could not be read. Nothing is wrong with
// what the credentials may not read; what is absent is.
func (l *look) mayNotRead(what string, err error) (level Level, text, hint string) {
	switch {
	case isForbidden(err):
		hint = "to permit it, in that cluster: kubectl apply -f " + l.manifest
		if l.cluster == federation.Local {
			hint = "to permit it: kubectl apply -f " + l.manifest
		}
		return Unchecked, "the credentials may not read " + what, hint
	case apierrors.IsNotFound(err):
		return Unchecked, what + " is not there", ""
	case errors.Is(err, context.DeadlineExceeded):
		return Unchecked, "no time was left to read " + what, ""
	}
	return Unchecked, l.printable(err), ""
}
