package links

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/clusterstore"
	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/cmd/isthmus/internal/commands"
	"isthmus/internal/adminapi"
	"isthmus/internal/text"
)

type cordonOptions struct {
	commands.Target
	name               string
	back               bool // set for uncordon
	lastResort         bool
	over               time.Duration
	yes, force, dryRun bool
}

func cordonCommand() cli.Command {
	o := new(cordonOptions)
	return o.command(cli.Command{
		Use:     "cordon NAME",
		Summary: "take a linked cluster's endpoints out of all services",
		Intro:   cordonIntro,
		Ending:  cordonEnding,
	}, func(s *pflag.FlagSet) {
		s.BoolVar(&o.lastResort, "last-resort", false,
			"Keep the cluster's endpoints in services that have no other ready endpoints.")
		s.BoolVar(&o.force, "force", false,
			"Cordon the cluster even if a service would lose all its endpoints or the effect cannot be determined.")
		o.flags(s)
	})
}

func uncordonCommand() cli.Command {
	o := &cordonOptions{back: true}
	return o.command(cli.Command{
		Use:     "uncordon NAME",
		Summary: "end a cordon",
		Intro:   uncordonIntro,
		Ending:  uncordonEnding,
	}, o.flags)
}

func (o *cordonOptions) command(v cli.Command, flags func(*pflag.FlagSet)) cli.Command {
	v.Example = "east"
	v.OneOf = oneReplica
	v.Run = o.run
	v.Flags = []cli.Section{cli.NewSection("Flags", flags)}
	return v
}

func (o *cordonOptions) flags(s *pflag.FlagSet) {
	s.DurationVar(&o.over, "over", 0,
		"Spread the change over this `DURATION`, up to 1h. Zero applies the change immediately.")
	s.BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation.")
	s.BoolVar(&o.dryRun, "dry-run", false, "Show the effect on each service without changing anything.")
	o.ClusterFlags(s, "context")
	replicaFlags(s, &o.Target)
}

func (o *cordonOptions) check(p cli.Process) (err error) {
	o.name = p.Args[0]
	if o.name == "local" {
		return cli.Usagef("the local cluster has no link: " +
			"to cordon this cluster, set --cordon-local=true or --cordon-local=last-resort on isthmus gateway")
	}
	if o.over < 0 || o.over > clusterstore.MaxCordonOver {
		return cli.Usagef("--over is %v: use a duration from 0s to %v", o.over, clusterstore.MaxCordonOver)
	}
	return o.Check()
}

func (o *cordonOptions) run(ctx context.Context, p cli.Process) error {
	if err := o.check(p); err != nil {
		return err
	}
	local, err := open(o.Options)
	if err != nil {
		return err
	}
	defer local.Close()
	return o.cordon(ctx, &work{p: p, out: p.Stdout, dry: o.dryRun}, local)
}

func (o *cordonOptions) cordon(ctx context.Context, w *work, local *cluster) error {
	links, err := o.find(ctx, w, local)
	if err != nil {
		return err
	}
	if err := o.weigh(ctx, w); err != nil {
		return err
	}
	if !o.yes && !o.dryRun {
		if err := w.p.Confirm(ctx, o.question()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	for i := range links {
		if err := o.write(ctx, w, local, &links[i]); err != nil {
			return err
		}
	}
	if w.dry {
		return nil
	}
	err = awaitReplicas(ctx, w, &o.Target, "applies the change",
		func(page adminapi.Clusters) (string, error) { return o.lacks(page, links), nil })
	if err != nil {
		return fmt.Errorf("the change was written, but some replicas may not have applied it: %w", err)
	}
	fmt.Fprintf(w.out, "%s: every replica has applied the change: %s\n", local.title, o.effect())
	return nil
}

// find returns all Secrets of the link. The command changes all Secrets of the link. Otherwise, the
// cordon would end as soon as Isthmus used another Secret of the link.
func (o *cordonOptions) find(ctx context.Context, w *work, local *cluster) (links []corev1.Secret, err error) {
	err = w.within(ctx, o.Timeout, "reading "+local.title, func(ctx context.Context) error {
		all, err := listLinks(ctx, local, o.Namespace)
		if err != nil {
			return err
		}
		if links = linksNamed(all, o.name); len(links) == 0 {
			return fmt.Errorf("%s: no link Secret for %q in namespace %s%s (-n, --context)", local.title, o.name,
				o.Namespace, linkNames(all))
		}
		return nil
	})
	return links, err
}

// weigh prints the effect of the change on each service. Unless --last-resort or --force is set, a
// cordon that would leave a service without endpoints results in an error.
func (o *cordonOptions) weigh(ctx context.Context, w *work) error {
	replicas, err := foresee(ctx, w, &o.Target, o.name, o.aim().standing)
	switch {
	case err == nil:
	case o.back || o.force:
		w.warn("the effect on services is unknown: %v", err)
		return nil
	default:
		return fmt.Errorf("cannot determine the effect on services: %w\n  --force cordons the cluster anyway", err)
	}
	list := impacts(replicas)
	showImpacts(w, list, o.name, o.aim().title, o.back)
	nothing := len(bare(list))
	if nothing == 0 || o.back || o.lastResort || o.force {
		return nil
	}
	return fmt.Errorf("%d of these services would have no endpoints left: "+
		"use --last-resort to keep the cluster in use for these services, "+
		"or --force to cordon the cluster anyway", nothing)
}

type aim struct {
	standing   string
	annotation any    // isthmus.io/cordon of the link Secret; nil removes it
	does       string // what happens to the endpoints; %s is "immediately" or "over DURATION"
	title      string // title of the list of services; %s is the cluster
}

const titleWithout = "Without %s, services would have:"

func (o *cordonOptions) aim() aim {
	switch {
	case o.back:
		return aim{adminapi.InService, nil, "return %s", "Services that will use %s again:"}
	case o.lastResort:
		return aim{adminapi.LastResort, "last-resort",
			"are removed from all services that have endpoints in other clusters, %s",
			"Services that will use %s only while no other cluster has endpoints:"}
	}
	return aim{adminapi.Withdrawn, "true", "are removed from all services %s", titleWithout}
}

func (o *cordonOptions) effect() string {
	speed := "immediately"
	if o.over > 0 {
		speed = fmt.Sprintf("over %v", o.over)
	}
	return "endpoints of " + o.name + " " + fmt.Sprintf(o.aim().does, speed)
}

func (o *cordonOptions) question() string {
	verb := "Cordon"
	if o.back {
		verb = "Uncordon"
	}
	return fmt.Sprintf("%s %s? The %s.", verb, o.name, o.effect())
}

// write patches only the two cordon annotations of s, so that concurrent changes are not lost. The
// written Secret replaces s.
func (o *cordonOptions) write(ctx context.Context, w *work, local *cluster, s *corev1.Secret) error {
	annotations := map[string]any{clusterstore.CordonAnnotation: o.aim().annotation,
		clusterstore.CordonOverAnnotation: nil}
	if o.over > 0 {
		annotations[clusterstore.CordonOverAnnotation] = o.over.String()
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.UID, "annotations": annotations}})
	if err != nil {
		return err
	}
	return w.do(ctx, local, "update", "link Secret "+key(s), func(ctx context.Context) error {
		written, err := local.API.Secrets(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch,
			metav1.PatchOptions{})
		if err == nil {
			*s = *written
		}
		return err
	})
}

// The lacks method returns the reason why a replica has not read the updated link Secret yet. A
// replica has read the updated link Secret if the replica's page contains either the cluster's new
// standing or the resource version of the Secret.
func (o *cordonOptions) lacks(page adminapi.Clusters, links []corev1.Secret) (why string) {
	why = "the link is missing: does the replica read link Secrets in namespace " + o.Namespace + "?"
	for _, c := range page.Clusters {
		if c.Cluster != o.name || c.Standing == "" {
			continue
		}
		switch {
		case c.Standing == o.aim().standing, o.lastResort && c.Standing != adminapi.InService:
			return ""
		case slices.ContainsFunc(links,
			func(s corev1.Secret) bool { return s.Name == c.Secret && s.ResourceVersion == c.SecretVersion }):
			return ""
		}
		why = "it shows " + o.name + " as " + commands.Printable(c.Standing)
	}
	return why
}

func linkNames(all []corev1.Secret) string {
	var names []string
	for _, s := range all {
		if name := s.Labels[clusterstore.ClusterNameLabel]; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ": there are no links"
	}
	slices.Sort(names)
	return ": choose one of " + text.Some(names, 10)
}

const cordonIntro = `isthmus cordon takes a linked cluster's endpoints out of all services. It sets the annotation
isthmus.io/cordon of the link Secret. The command first shows which endpoints each service
keeps, and asks for confirmation. It refuses if a service would lose all its endpoints.

Usage: isthmus cordon NAME [FLAGS]`

const cordonEnding = `Every ready replica determines the effect with the code that chooses endpoints for clients,
including preferences and zones. For a port that proxies watch, the command shows the
clients that keep the fewest endpoints. For any other service, it shows the clusters that
remain. The local cluster has no link. To cordon it, set the flag --cordon-local of
isthmus gateway.

--over sets the annotation isthmus.io/cordon-over. Without --over, the command removes this
annotation. It changes nothing else in the link Secret.

Required permissions: list and patch secrets in the namespace of the links. Without --admin,
also list pods and create pods/portforward there.

The exit code is 1 if the command refuses or fails, or if a replica may not have applied
the change.

Examples:
  isthmus cordon east
  isthmus cordon east --last-resort --over 10m
  isthmus cordon east --dry-run --admin 127.0.0.1:9996
  isthmus cordon east --force --yes`

const uncordonIntro = `isthmus uncordon ends a cordon. It removes the annotation isthmus.io/cordon of the link
Secret. The command first shows which services will use the cluster again, and asks for
confirmation.

Usage: isthmus uncordon NAME [FLAGS]`

const uncordonEnding = `--over sets the annotation isthmus.io/cordon-over. Without --over, the command removes this
annotation. A lost cluster stays out of service as its annotation isthmus.io/when-lost
requires.

Required permissions: list and patch secrets in the namespace of the links. Without --admin,
also list pods and create pods/portforward there.

The exit code is 1 if the command fails, or if a replica may not have applied the change.

Examples:
  isthmus uncordon east
  isthmus uncordon east --over 10m --yes`
