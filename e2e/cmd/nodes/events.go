//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"isthmus/e2e/harness"
)

type event struct {
	name string
	do   func(context.Context, *window) error
}

type window struct {
	began time.Time
	note  string // for the table
	// silent is the time since which the replica at this address has not responded, although its
	// connections stayed open.
	silent  time.Time
	address string

	restarted bool            // whether a replica was not ready
	short     int             // streams with too few endpoints before the last mark
	linkerds  map[string]bool // addresses of Linkerd's own replicas
}

// target identifies the Deployment under test by its name and the labels of its Pods.
type target struct{ deployment, selector string }

var own = target{"isthmus", "app.kubernetes.io/name=isthmus"}

type events struct{ *world }

// all plays every event for a standalone Isthmus and prints the table. Before a drain and before an
// update, the clients are distributed over both replicas. A client that loses its replica connects
// to the other one and stays there.
func (e events) all(ctx context.Context) error {
	return e.play(ctx, []event{
		{"nothing, for 20 s", func(ctx context.Context, _ *window) error { return harness.Pause(ctx, 20*time.Second) }},
		{"isthmus check", e.check},
		{"a node is drained", e.drain},
		{"rolling update, DNS with a TTL of 30 s", e.update},
		{"a replica hangs: its liveness probe", e.hang},
		{"a replica is killed", e.kill},
		{"a replica is out of memory", e.outOfMemory},
		{"west's API server is killed, back after 10 s", e.killAPI("west")},
		{"east's API server is killed, back after 10 s", e.killAPI("east")},
		{"rolling update, DNS with a TTL of 5 s", func(ctx context.Context, n *window) error {
			return errors.Join(e.setTTL(ctx, "5"), e.update(ctx, n))
		}},
		{"a node is lost, back after 2 min", e.lose},
		// This event comes last. Its outage is longer than Kubernetes waits for a node, so that the
		// controllers of east may mark Pods unready minutes after the API server is back.
		{"rolling update while east's API server is down", e.updateWithoutEast},
	})
}

// play plays the events while endpoints change in both clusters, and prints the effects on the
// streams.
func (e events) play(ctx context.Context, list []event) error {
	var rows []row
	var failed error
	chosen := regexp.MustCompile(e.run)
	for _, one := range list {
		if !chosen.MatchString(one.name) {
			continue
		}
		if _, err := e.reports(ctx, true); err != nil {
			return err
		}
		n := &window{began: time.Now()}
		churning, stop := context.WithCancel(ctx)
		var churn sync.WaitGroup
		churn.Go(func() { e.churn(churning) })
		err := one.do(ctx, n)
		took := time.Since(n.began)
		stop()
		churn.Wait()
		err = errors.Join(err, e.settle(ctx))
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", one.name, err))
		}
		r := rowOf(one.name, n, took, e.streams, err)
		e.log("  %s", r)
		rows = append(rows, r)
		if n.restarted { // wait until DNS contains all replicas again
			if err := harness.Pause(ctx, 35*time.Second); err != nil {
				return err
			}
		}
	}
	printTable(rows)
	for _, r := range rows {
		if r.short+r.faults > 0 {
			failed = errors.Join(
				failed,
				fmt.Errorf("%s: %d sets were short, and there were %d faults", r.name, r.short, r.faults),
			)
		}
	}
	return failed
}

// churn starts and stops a third Pod of web in both clusters. It ignores errors, because an API
// server may be down.
func (e events) churn(ctx context.Context) {
	for i := 1; harness.Pause(ctx, 5*time.Second) == nil; i++ {
		for _, client := range e.clients {
			ctx, stop := context.WithTimeout(ctx, 3*time.Second)
			client.AppsV1().
				Deployments("shop").
				Patch(
					ctx,
					"web-more",
					types.MergePatchType,
					fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, i%2),
					metav1.PatchOptions{},
				)
			stop()
		}
	}
}

func (e events) check(ctx context.Context, n *window) error {
	out, err := run(ctx, "", "isthmus", "check")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	n.note = lines[len(lines)-1]
	return nil
}

// pods waits for a minimum number of running and ready Pods and returns them.
func (e events) pods(ctx context.Context, least int) (ready []corev1.Pod, err error) {
	err = await(ctx, "the Pods of Isthmus", func() error {
		list, err := e.clients["west"].CoreV1().
			Pods("linkerd").
			List(ctx, metav1.ListOptions{LabelSelector: e.target.selector})
		if err != nil {
			return err
		}
		ready = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			return p.DeletionTimestamp != nil ||
				!slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
				})
		})
		if len(ready) < least {
			return fmt.Errorf("%d of them are ready", len(ready))
		}
		return nil
	})
	return ready, err
}

// busiest returns the Pod with the most streams, and its process id.
func (e events) busiest(ctx context.Context) (pod corev1.Pod, pid int, err error) {
	pods, err := e.pods(ctx, 2)
	if err != nil {
		return pod, 0, err
	}
	streams, err := e.reports(ctx, false)
	if err != nil {
		return pod, 0, err
	}
	at := map[string]int{}
	for _, r := range streams {
		if len(r.Openings) > 0 {
			at[r.Openings[len(r.Openings)-1].Addr]++
		}
	}
	pod = slices.MaxFunc(pods, func(a, b corev1.Pod) int { return at[addressOf(a)] - at[addressOf(b)] })
	pid, err = processOf(pod)
	return pod, pid, err
}

func addressOf(p corev1.Pod) string { return p.Status.PodIP + ":8086" }

func processOf(pod corev1.Pod) (pid int, err error) {
	paths, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, path := range paths {
		program, _ := os.Readlink(path)
		groups, _ := os.ReadFile(filepath.Dir(path) + "/cgroup")
		if filepath.Base(program) == "isthmus" && strings.Contains(string(groups), string(pod.UID)) {
			_, err := fmt.Sscanf(path, "/proc/%d/exe", &pid)
			return pid, err
		}
	}
	return 0, fmt.Errorf("no process isthmus in Pod %s", pod.Name)
}

func (e events) awaitRestart(ctx context.Context, n *window, before corev1.Pod) error {
	n.restarted = true
	err := await(ctx, before.Name+" is restarted", func() error {
		pod, err := e.clients["west"].CoreV1().Pods("linkerd").Get(ctx, before.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now, then := pod.Status.ContainerStatuses[0], before.Status.ContainerStatuses[0]
		if now.RestartCount == then.RestartCount || !now.Ready {
			return errors.New("not yet")
		}
		ended := now.LastTerminationState.Terminated
		n.note = fmt.Sprintf(
			"%s, exit code %d; ended after %.0f s, ready again after %.0f s",
			ended.Reason,
			ended.ExitCode,
			max(0, ended.FinishedAt.Sub(n.began).Seconds()),
			time.Since(n.began).Seconds(),
		)
		return nil
	})
	return err
}

func (e events) hang(ctx context.Context, n *window) error {
	pod, pid, err := e.busiest(ctx)
	if err != nil {
		return err
	}
	n.silent, n.address = time.Now(), addressOf(pod)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return e.awaitRestart(ctx, n, pod)
}

func (e events) kill(ctx context.Context, n *window) error {
	pod, pid, err := e.busiest(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return e.awaitRestart(ctx, n, pod)
}

// outOfMemory uses up the container's memory with another process, so that the kernel kills the
// replica.
func (e events) outOfMemory(ctx context.Context, n *window) error {
	pod, pid, err := e.busiest(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`(?m)^\d+:(memory|):(.*)$`).FindStringSubmatch(string(text))
	if found == nil {
		return fmt.Errorf("no cgroup for memory: %s", text)
	}
	limit := pod.Spec.Containers[0].Resources.Limits.Memory().Value() >> 20
	hog := exec.CommandContext(
		ctx,
		"/proc/self/exe",
		"hog",
		filepath.Join("/sys/fs/cgroup", found[1], found[2]),
		fmt.Sprint(limit-8),
	)
	// The runtime kills the hog as well if the hog still runs when the container's cgroup is removed.
	if out, err := hog.CombinedOutput(); err != nil && hog.ProcessState.ExitCode() != -1 {
		return fmt.Errorf("hog: %w: %s", err, out)
	}
	if err := e.awaitRestart(ctx, n, pod); err != nil {
		return err
	}
	if !strings.HasPrefix(n.note, "OOMKilled") {
		return fmt.Errorf("the container's end is %s", n.note)
	}
	return nil
}

func (e events) killAPI(name string) func(context.Context, *window) error {
	return func(ctx context.Context, n *window) error {
		if err := e.clusters[name].Kill(); err != nil {
			return err
		}
		if err := harness.Pause(ctx, 10*time.Second); err != nil {
			return err
		}
		return e.restartAPI(ctx, name)
	}
}

// restartAPI restarts a cluster's API server and waits until all nodes and two replicas are ready.
func (e events) restartAPI(ctx context.Context, name string) error {
	if err := e.clusters[name].Restart(ctx); err != nil {
		return err
	}
	for _, p := range places {
		if err := e.awaitNode(ctx, p, true); err != nil {
			return err
		}
	}
	_, err := e.pods(ctx, 2)
	return err
}

func (e events) drain(ctx context.Context, n *window) error {
	for _, command := range [][]string{
		{"drain", "west-2", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=5m"},
		{"rollout", "status", "-n", "linkerd", "deployment/" + e.target.deployment, "--timeout=5m"},
		{"uncordon", "west-2"},
	} {
		if _, err := e.kubectl(ctx, "", "west", command...); err != nil {
			return err
		}
	}
	return nil
}

func (e events) setTTL(ctx context.Context, ttl string) error {
	text := strings.NewReplacer("CLUSTER", "west", "TTL", ttl).Replace(objectsYAML)
	text, _, _ = strings.Cut(text, "---\napiVersion: v1\nkind: Namespace") // without the Pods
	if _, err := e.kubectl(ctx, text, "west", "apply", "-f", "-"); err != nil {
		return err
	}
	return e.rollout(ctx, "west", "kube-system/coredns")
}

func (e events) update(ctx context.Context, n *window) error {
	began := time.Now()
	if _, err := e.kubectl(
		ctx,
		"",
		"west",
		"rollout",
		"restart",
		"-n",
		"linkerd",
		"deployment/"+e.target.deployment,
	); err != nil {
		return err
	}
	return e.finish(ctx, n, began)
}

// updateWithoutEast replaces all replicas while east's API server is down, after a copy of east's
// cache has been written.
func (e events) updateWithoutEast(ctx context.Context, n *window) error {
	if err := e.awaitCopy(ctx, false); err != nil { // left over from an earlier outage
		return err
	}
	if err := e.clusters["east"].Kill(); err != nil {
		return err
	}
	err := e.awaitCopy(ctx, true)
	if err == nil {
		err = e.update(ctx, n)
	}
	if err == nil {
		err = e.countShort(ctx, n)
	}
	if err := errors.Join(err, e.restartAPI(ctx, "east"), e.settle(ctx)); err != nil {
		return err
	}
	// The outage was longer than Kubernetes waits for a node. Once the API server is back, the
	// controllers of east may mark the node's Pods unready for a moment.
	_, err = e.reports(ctx, true)
	return err
}

// awaitCopy waits until a copy of east's cache exists, or until none exists.
func (e events) awaitCopy(ctx context.Context, want bool) error {
	return await(ctx, "the copy of east", func() error {
		list, err := e.clients["west"].CoreV1().
			ConfigMaps("linkerd").
			List(ctx, metav1.ListOptions{LabelSelector: "isthmus.io/cache-cluster=east"})
		if err == nil && want != (len(list.Items) > 0) {
			err = fmt.Errorf("%d ConfigMaps exist", len(list.Items))
		}
		return err
	})
}

// countShort counts the streams that have had too few endpoints since the last mark.
func (e events) countShort(ctx context.Context, n *window) error {
	streams, err := e.reports(ctx, false)
	if err != nil {
		return err
	}
	for name, s := range streams {
		if wasShort(name, s) {
			n.short++
		}
	}
	return nil
}

// finish waits until a rolling update is complete and the previous Pods have disappeared.
func (e events) finish(ctx context.Context, n *window, began time.Time) error {
	if err := e.rollout(ctx, "west", "linkerd/"+e.target.deployment); err != nil {
		return err
	}
	n.note = fmt.Sprintf("rollout status ends after %.0f s", time.Since(began).Seconds())
	return await(ctx, "the previous Pods no longer exist", func() error {
		list, err := e.clients["west"].CoreV1().
			Pods("linkerd").
			List(ctx, metav1.ListOptions{LabelSelector: e.target.selector})
		if err == nil &&
			slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }) {
			err = errors.New("one is there")
		}
		return err
	})
}

// lose cuts the power of a node without clients and restores it.
func (e events) lose(ctx context.Context, n *window) error {
	pods, err := e.pods(ctx, 2)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == "west-2" })
	if i < 0 {
		return errors.New("no replica is on west-2")
	}
	n.silent, n.address = time.Now(), addressOf(pods[i])
	if err := e.loseNode(ctx, "west-2"); err != nil {
		return err
	}
	p := places[1]
	if err := e.awaitNode(ctx, p, false); err != nil {
		return err
	}
	n.note = fmt.Sprintf("not Ready after %.0f s", time.Since(n.began).Seconds())
	if err := harness.Pause(ctx, 2*time.Minute-time.Since(n.began)); err != nil {
		return err
	}
	if err := e.startNode(ctx, p); err != nil {
		return err
	}
	if err := e.awaitNode(ctx, p, true); err != nil {
		return err
	}
	_, err = e.pods(ctx, 2)
	return err
}

// change returns an event that updates the Deployment with a kubectl command.
func (e events) change(args ...string) func(context.Context, *window) error {
	return func(ctx context.Context, n *window) error {
		began := time.Now()
		before, err := e.pods(ctx, 2)
		if err != nil {
			return err
		}
		if _, err := e.kubectl(ctx, "", "west", append(args, "-n", "linkerd")...); err != nil {
			return err
		}
		if err := e.finish(ctx, n, began); err != nil {
			return err
		}
		after, err := e.pods(ctx, 2)
		n.linkerds = map[string]bool{}
		for _, pod := range slices.Concat(before, after) {
			n.linkerds[addressOf(pod)] = pod.Spec.Containers[0].Image == linkerdImage
		}
		return err
	}
}
