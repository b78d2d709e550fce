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

// event is something that happens while clients have streams.
type event struct {
	name string
	do   func(context.Context, *window) error
}

// window is when an event happened.
type window struct {
	began time.Time
	note  string // for the table
	// silent is since when the replica at this address has been silent, although connections to it were not closed.
	silent  time.Time
	address string

	restarted bool            // one replica was not ready
	linkerds  map[string]bool // addresses of Linkerd's own replicas
}

// gateway is the Deployment that is asked: its name and the labels of its Pods.
type gateway struct{ deployment, selector string }

var own = gateway{"isthmus", "app.kubernetes.io/name=isthmus"}

// events makes all events happen to the gateway on its own, and prints the table. Drained, and
// updated, are replicas that clients have spread over: who loses a replica goes to the other one,
// and stays.
func (w *world) events(ctx context.Context) error {
	return w.play(ctx, []event{
		{"nothing, for 20 s", func(ctx context.Context, _ *window) error { return harness.Pause(ctx, 20*time.Second) }},
		{"isthmus check", w.check},
		{"a node is drained", w.drain},
		{"rolling update, DNS with a TTL of 30 s", w.update},
		{"a gateway hangs: its liveness probe", w.hang},
		{"a gateway is killed", w.kill},
		{"a gateway is out of memory", w.outOfMemory},
		{"west's API server is killed, back after 10 s", w.killAPI("west")},
		// This event is the first outage of east, so that no older copy of east exists.
		{"rolling update while east's API server is down", w.updateWithoutEast},
		{"east's API server is killed, back after 10 s", w.killAPI("east")},
		{"rolling update, DNS with a TTL of 5 s", func(ctx context.Context, n *window) error {
			return errors.Join(w.setTTL(ctx, "5"), w.update(ctx, n))
		}},
		{"a node is lost, back after 2 min", w.lose},
	})
}

// play makes events happen, while endpoints come and go in both clusters, and prints what the streams noticed.
func (w *world) play(ctx context.Context, events []event) error {
	var rows []row
	var failed error
	chosen := regexp.MustCompile(w.run)
	for _, e := range events {
		if !chosen.MatchString(e.name) {
			continue
		}
		if _, err := w.reports(ctx, true); err != nil {
			return err
		}
		n := &window{began: time.Now()}
		churning, stop := context.WithCancel(ctx)
		var churn sync.WaitGroup
		churn.Go(func() { w.churn(churning) })
		err := e.do(ctx, n)
		took := time.Since(n.began)
		stop()
		churn.Wait()
		err = errors.Join(err, w.settle(ctx))
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", e.name, err))
		}
		r := rowOf(e.name, n, took, w.streams, err)
		w.log("  %s", r)
		rows = append(rows, r)
		if n.restarted { // until DNS has all replicas again
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

// churn lets a third Pod of web come and go in both clusters. An API server may be down.
func (w *world) churn(ctx context.Context) {
	for i := 1; harness.Pause(ctx, 5*time.Second) == nil; i++ {
		for _, client := range w.clients {
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

func (w *world) check(ctx context.Context, n *window) error {
	out, err := run(ctx, "", "isthmus", "check")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	n.note = lines[len(lines)-1]
	return nil
}

// pods returns the gateway's Pods that run and are ready, and at least that many.
func (w *world) pods(ctx context.Context, least int) (ready []corev1.Pod, err error) {
	err = await(ctx, "the gateway's Pods", func() error {
		list, err := w.clients["west"].CoreV1().
			Pods("linkerd").
			List(ctx, metav1.ListOptions{LabelSelector: w.gateway.selector})
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

// busiest returns the Pod that most streams are at, and its process.
func (w *world) busiest(ctx context.Context) (pod corev1.Pod, pid int, err error) {
	pods, err := w.pods(ctx, 2)
	if err != nil {
		return pod, 0, err
	}
	streams, err := w.reports(ctx, false)
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

// processOf finds a gateway's process by its Pod's cgroup.
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

// awaitRestart waits until the Pod's container has been started again, and serves.
func (w *world) awaitRestart(ctx context.Context, n *window, before corev1.Pod) error {
	n.restarted = true
	err := await(ctx, before.Name+" is restarted", func() error {
		pod, err := w.clients["west"].CoreV1().Pods("linkerd").Get(ctx, before.Name, metav1.GetOptions{})
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

func (w *world) hang(ctx context.Context, n *window) error {
	pod, pid, err := w.busiest(ctx)
	if err != nil {
		return err
	}
	n.silent, n.address = time.Now(), addressOf(pod)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return w.awaitRestart(ctx, n, pod)
}

func (w *world) kill(ctx context.Context, n *window) error {
	pod, pid, err := w.busiest(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return w.awaitRestart(ctx, n, pod)
}

// outOfMemory fills the container's memory from beside the gateway, which the kernel then kills.
func (w *world) outOfMemory(ctx context.Context, n *window) error {
	pod, pid, err := w.busiest(ctx)
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
	if out, err := hog.CombinedOutput(); err != nil {
		return fmt.Errorf("hog: %w: %s", err, out)
	}
	if err := w.awaitRestart(ctx, n, pod); err != nil {
		return err
	}
	if !strings.HasPrefix(n.note, "OOMKilled") {
		return fmt.Errorf("the container's end is %s", n.note)
	}
	return nil
}

func (w *world) killAPI(name string) func(context.Context, *window) error {
	return func(ctx context.Context, n *window) error {
		if err := w.clusters[name].Kill(); err != nil {
			return err
		}
		if err := harness.Pause(ctx, 10*time.Second); err != nil {
			return err
		}
		return w.restartAPI(ctx, name)
	}
}

// restartAPI returns once all nodes and two replicas are ready.
func (w *world) restartAPI(ctx context.Context, name string) error {
	if err := w.clusters[name].Restart(ctx); err != nil {
		return err
	}
	for _, p := range places {
		if err := w.awaitNode(ctx, p, true); err != nil {
			return err
		}
	}
	_, err := w.pods(ctx, 2)
	return err
}
