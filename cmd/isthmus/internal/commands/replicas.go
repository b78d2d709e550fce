package commands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"isthmus/cmd/isthmus/internal/cli"
	"isthmus/internal/adminapi"
)

// facts maps each object to the facts on which all replicas in a cluster should agree.
type facts map[string]fact

type fact struct {
	text string
	// If perReplica is true, some replicas may not report the fact, because the fact depends on
	// which proxies are connected to a replica.
	perReplica bool
}

// readEach reads a page from every replica that the flags select. readEach returns the first
// response that has a supported format. If no response has a supported format, readEach returns the
// first response regardless of its format. The second result describes how the responses of the
// other replicas differ from the returned response. If no replica responds, readEach returns an
// error.
func readEach[T any](
	ctx context.Context, p cli.Process, o *Target, path string, of func(*T) facts,
) (shown Answer[T], others []adminapi.OtherReplica, err error) {
	answers, err := ReadAll[T](ctx, p, o, path)
	if err != nil {
		return shown, nil, err
	}
	first := slices.IndexFunc(answers, func(a Answer[T]) bool { return a.Err == nil && a.Unchecked(p.Build) == "" })
	if first < 0 {
		first = slices.IndexFunc(answers, func(a Answer[T]) bool { return a.Err == nil })
	}
	if first < 0 {
		return shown, nil, answers[0].Err
	}
	shown = answers[first]
	for _, a := range slices.Delete(answers, first, first+1) {
		other := adminapi.OtherReplica{Gateway: a.Replica}
		unchecked := a.Unchecked(p.Build)
		switch {
		case a.Err != nil:
			other.Error, _, _ = strings.Cut(a.Err.Error(), "\n") // without the hint
		case unchecked != "":
			other.Unchecked = unchecked
		default:
			other.Differences = of(shown.Value).differences(of(a.Value))
		}
		others = append(others, other)
	}
	return shown, others, nil
}

// The differences method returns one line for each fact on which two replicas disagree.
func (f facts) differences(other facts) (lines []string) {
	keys := maps.Clone(f)
	maps.Copy(keys, other)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		here, isHere := f[key]
		there, isThere := other[key]
		switch {
		case isHere && isThere && here.text != there.text:
			lines = append(lines, fmt.Sprintf("%s: %s, and not %s", key, there.text, here.text))
		case !isThere && !here.perReplica:
			lines = append(lines, key+" is not there")
		case !isHere && !there.perReplica:
			lines = append(lines, key+" is there only: "+there.text)
		}
	}
	return lines
}

// compared returns a summary, such as "; 2 replicas differ", and one line per difference. If no
// pages were compared, the summary contains the given reason.
func compared(others []adminapi.OtherReplica, unchecked string) (summary string, lines []string) {
	if unchecked != "" {
		return "; not checked: " + unchecked, nil
	}
	if len(others) == 0 {
		return "", nil
	}
	for _, o := range others {
		if o.Error != "" {
			lines = append(lines, o.Gateway+" cannot be queried: "+o.Error)
		}
		if o.Unchecked != "" {
			lines = append(lines, o.Gateway+" is not compared: "+o.Unchecked)
		}
		for _, d := range o.Differences {
			lines = append(lines, o.Gateway+": "+d)
		}
	}
	if len(lines) == 0 {
		return fmt.Sprintf("; %d replicas agree", len(others)+1), nil
	}
	return fmt.Sprintf("; %d replicas differ", len(others)+1), lines
}
