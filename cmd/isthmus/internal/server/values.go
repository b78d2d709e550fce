package server

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/federation"
)

// parsed is a pflag.Value whose text is parsed by a given function.
type parsed[T any] struct {
	to   *T
	text string
	read func(string) (T, error)
}

// parse adds a flag whose value is parsed with the given function. Errors from the function must
// describe the valid values of the flag.
func parse[T any](s *pflag.FlagSet, to *T, name, value string, read func(string) (T, error), usage string) {
	p := &parsed[T]{to: to, read: read}
	if err := p.Set(value); err != nil {
		panic(fmt.Sprintf("--%s: %v", name, err)) // the default is always valid
	}
	s.Var(p, name, usage)
}

// String implements pflag.Value.
func (p *parsed[T]) String() string { return p.text }

// Type implements pflag.Value. For flags of type "string", pflag quotes the default in the help.
func (p *parsed[T]) Type() string { return fmt.Sprintf("%T", *p.to) }

// Set implements pflag.Value.
func (p *parsed[T]) Set(text string) error {
	v, err := p.read(text)
	if err == nil {
		*p.to = v
		p.text = text
	}
	return err
}

func notEmpty(what string) func(string) (string, error) {
	return func(text string) (string, error) {
		if text == "" {
			return "", errors.New("use " + what)
		}
		return text, nil
	}
}

func hostPort(text string) (string, error) {
	if _, _, err := net.SplitHostPort(text); err != nil {
		return "", errors.New("use HOST:PORT, or :PORT for all of this machine's addresses")
	}
	return text, nil
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 0, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("use a number from 1 to %d", uint32(math.MaxUint32))
	}
	return uint32(n), nil
}

// numberOrNone is like number, but returns 0 for an empty string.
func numberOrNone(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	return number(text)
}

const longest = time.Duration(math.MaxInt64)

// duration returns a function that parses a duration and rejects values outside the given bounds.
// In error messages, the hint describes the valid values.
func duration(least, most time.Duration, hint string) func(string) (time.Duration, error) {
	return func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > most {
			return 0, errors.New("use " + hint)
		}
		return d, nil
	}
}

var notNegative = duration(0, longest, "a duration of 0 or more")

// parseAge parses --max-connection-age.
func parseAge(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil && d == 0 {
		return 0, nil
	}
	return duration(time.Second, longest, "a duration of a second or more, such as 30m, or 0 for no limit")(text)
}

func parseLevel(text string) (logLevel, error) {
	level, ok := findLevel(text)
	if !ok {
		return level, errors.New("use " + logLevelNames)
	}
	return level, nil
}

// standing returns a function that parses one of the given words. The word at index i represents
// federation.Standing(i).
func standing(words ...string) func(string) (federation.Standing, error) {
	return func(text string) (federation.Standing, error) {
		i := slices.Index(words, text)
		if i < 0 {
			return 0, errors.New("use " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1])
		}
		return federation.Standing(i), nil
	}
}

func label(text string) (string, error) {
	if problems := validation.IsDNS1123Label(text); len(problems) > 0 {
		return "", fmt.Errorf("use a name that would be valid for a namespace: %s", strings.Join(problems, "; "))
	}
	return text, nil
}

// quantity returns a function that parses a number of bytes, such as 64Mi, and rejects values below
// the given minimum. An empty string means 0.
func quantity(least int64) func(string) (int64, error) {
	return func(text string) (int64, error) {
		if text == "" {
			return 0, nil
		}
		q, err := resource.ParseQuantity(text)
		switch {
		case err != nil:
			return 0, errors.New("use a number of bytes such as 64Mi")
		case q.CmpInt64(least) < 0:
			return 0, fmt.Errorf("use %dMi or more", least>>20)
		}
		return q.Value(), nil
	}
}
