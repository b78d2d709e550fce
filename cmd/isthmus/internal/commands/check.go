package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"isthmus/cmd/isthmus/internal/check"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/reach"
	"isthmus/internal/adminapi"
	"isthmus/internal/pace"
	"isthmus/internal/text"
)

// checkTimeout is by default for all checks of a gateway: 250 clusters of which many do not answer.
const checkTimeout = 30 * time.Second

// checkOptions are those of "isthmus check".
type checkOptions struct {
	Target
	pre       bool // what is there before an installation is checked, from here
	exports   bool // for a gateway with --exports=on
	wait      time.Duration
	every     time.Duration // the checks are repeated while it waits
	account   string
	preflight Preflighter
}

func checkCommand(preflight Preflighter) cli.Command {
	o := &checkOptions{every: 2 * time.Second, preflight: preflight}
	return o.command(cli.Command{
		Use:     "check",
		Summary: "check all that a gateway needs, before it is installed and while it runs, and what to do",
		Intro:   checkIntro,
		Ending:  checkEnding,
		OneOf:   [][2]string{{"pre", "admin"}, {"pre", "pod"}},
		Run:     func(ctx context.Context, p cli.Process) error { return runCheck(ctx, p, o) },
	}, func(s *pflag.FlagSet) {
		o.pageFlags(s, checkTimeout, "The checks must be done within this `DURATION`, each time.")
		s.BoolVar(&o.pre, "pre", false, "Check what is there before an installation: no gateway is looked for, and its rights need not be granted yet.")
		s.BoolVar(&o.exports, "exports", false, "Where there is no gateway yet or with --pre, check also the rights that --exports=on needs.")
		s.DurationVar(&o.wait, "wait", 0, "Repeat the checks until none has failed, for this `DURATION` at most.")
		s.StringVar(&o.account, "service-account", "isthmus", "`NAME` of the ServiceAccount that a gateway is to have, where there is none yet or with --pre.")
	})
}

// runCheck checks once, or until nothing has failed.
func runCheck(ctx context.Context, p cli.Process, o *checkOptions) error {
	if o.wait < 0 {
		return cli.Usagef("--wait is %v: give a duration, such as 5m", o.wait)
	}
	s, err := o.untilFine(ctx, p)
	if err != nil {
		return err
	}
	if o.asJSON() {
		err = printJSON(p.Stdout, s.CheckOutput)
	} else {
		s.marks = marksOf(os.Getenv)
		err = printText(p.Stdout, s.table())
	}
	switch {
	case err != nil:
	case s.unknown():
		err = errors.New("no check could be done: no gateway has pages that this program can judge")
	case s.Failures > 0:
		err = fmt.Errorf("%s: what to do is shown beneath each", text.Count(s.Failures, "check has failed", "checks have failed"))
	}
	return err
}

// untilFine checks again and again, for as long as --wait, and returns what it found last.
func (o *checkOptions) untilFine(ctx context.Context, p cli.Process) (*checkState, error) {
	began := time.Now()
	for before := ""; ; {
		s, err := o.once(ctx, p)
		if err == nil && s.Failures == 0 || ctx.Err() != nil || time.Since(began)+o.every > o.wait {
			return s, err
		}
		if why := s.why(err); why != before {
			fmt.Fprintf(p.Stderr, "%s: waiting, for %v at most: %s\n", p.Name, o.wait, why)
			before = why
		}
		if !pace.Sleep(ctx, o.every) {
			return s, err
		}
	}
}

// once runs all checks: those of each gateway or, before an installation and where there is
// none, from here.
func (o *checkOptions) once(ctx context.Context, p cli.Process) (*checkState, error) {
	if o.pre {
		return o.fromHere(ctx, p, nil)
	}
	answers, err := ask(ctx, p, &o.Target, "/debug/clusters and /debug/services",
		func(ctx context.Context, g reach.Replica, seen *check.Seen) (Origin, error) {
			from, err := fetch(ctx, g, "/debug/clusters?"+adminapi.FreshParameter+"=true", &seen.Clusters)
			if err == nil {
				_, err = fetch(ctx, g, "/debug/services", &seen.Services)
			}
			return from, err
		})
	if none, ok := errors.AsType[reach.NoReplica](err); ok {
		return o.fromHere(ctx, p, none)
	}
	if err != nil {
		return nil, err
	}
	s := newCheckState(adminapi.CheckedReplicas)
	s.merge(answers, p.Build)
	s.finish()
	return s, nil
}

// fromHere runs the checks that need no gateway, by the user's kubeconfig. why is that no
// gateway can be asked, which is a failure; nil: none is looked for.
func (o *checkOptions) fromHere(ctx context.Context, p cli.Process, why error) (*checkState, error) {
	s := newCheckState(adminapi.CheckedHere)
	if why != nil {
		text, hint, _ := strings.Cut(why.Error(), "\n")
		s.add(checkAnswers, "", check.Failure, text, cmp.Or(strings.TrimSpace(hint), "look for it")+"; before an installation: isthmus check --pre")
	}
	cluster, err := o.Open()
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var found check.Seen
	err = o.await(ctx, p, "the checks from here", "at least one cluster", func() error {
		found = o.preflight(ctx, Preflight{cluster.Config(), cluster.API, o.Namespace, o.account, o.pre, o.exports})
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	s.Results = append(s.Results, check.Judge(found)...)
	s.finish()
	return s, nil
}

const checkIntro = `isthmus check checks all that a gateway needs, section by section: API servers, rights,
link Secrets and how long they are good, clocks, trust anchors, Pod networks, federated
services, and replicas. What is wrong is followed by what to do.

What each replica of the gateway shows on /debug/clusters and /debug/services is judged:
it has seen the clusters from its own network, with the links' credentials. A replica that
is not ready is a failure, and is not asked. Replicas read trust anchors and Pod networks
again for this command. If a cluster does not answer within 2 s, check shows how old its
anchors and networks are. If no replica is ready, check fails, and looks at the clusters
from here, with your kubeconfig. With --pre no gateway is looked for, and what is there
before an installation is checked in that way. With --admin only the gateway there is asked,
and your kubeconfig is not used.

Usage: isthmus check [FLAGS]`

const checkEnding = `Marks (plain text where the locale is not UTF-8):
  ✓ [ok]    fine
  ‼ [warn]  works, and part of it does not, or soon will not
  ✗ [fail]  does not work
  ? [skip]  could not be checked: what may not be read, or does not answer

-o json prints one object in a line: go doc isthmus/internal/adminapi.CheckOutput
explains its fields. Objects are clusters, Secrets, Services (NAMESPACE/NAME) or gateways.

Exit code 1 if a check has failed or no check could be done, 0 also with warnings.

Examples:
  isthmus check --pre && kubectl apply -k manifests/install
  isthmus check
  isthmus check --context west -n linkerd
  isthmus check --wait 5m && kubectl apply -f federated-services.yaml
  isthmus check -o json | jq -r '.results[] | select(.level == "failure") | .text'`
