package cases

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// split splits a line of a script into words at blanks. Quoted words can contain blanks, and \n in
// them is a newline. A # at the start of a word begins a comment.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quoted := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quoted && c == '\'':
			quoted = false
		case quoted && c == '\\' && i+1 < len(line) && line[i+1] == 'n':
			word.WriteByte('\n')
			i++
		case quoted:
			word.WriteByte(c)
		case c == '\'':
			inWord, quoted = true, true
		case c == ' ' || c == '\t' || c == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case c == '#' && !inWord:
			return words, nil
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if quoted {
		return nil, errors.New("unterminated quote")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

var numbers = regexp.MustCompile(`\[(\d+)-(\d+)\]`)

// expand returns the strings for a word with ranges such as 10.1.0.[1-5].
func expand(word string) ([]string, error) {
	at := numbers.FindStringSubmatchIndex(word)
	if at == nil {
		return []string{word}, nil
	}
	from, err1 := strconv.Atoi(word[at[2]:at[3]])
	to, err2 := strconv.Atoi(word[at[4]:at[5]])
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("range in %q: %w", word, err)
	}
	const limit = 1 << 16
	if from > to || to-from >= limit {
		return nil, fmt.Errorf("range in %q: from %d to %d", word, from, to)
	}
	var all []string
	for n := from; n <= to; n++ {
		rest, err := expand(word[at[1]:])
		if err != nil {
			return nil, err
		}
		for _, r := range rest {
			all = append(all, word[:at[0]]+strconv.Itoa(n)+r)
		}
	}
	return all, nil
}

// addresses parses IP:PORT words with ranges.
func addresses(words []string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for _, word := range words {
		texts, err := expand(word)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			addr, err := netip.ParseAddrPort(text)
			if err != nil {
				return nil, fmt.Errorf("%q is not IP:PORT", text)
			}
			all = append(all, addr)
		}
	}
	return all, nil
}

// options are the words KEY=VALUE and FLAG at the end of a command.
type options struct {
	values      map[string][]string
	flags       map[string]bool
	labels      map[string]any
	annotations map[string]any
}

// readOptions parses options according to the suffix of each key. A key with the suffix "=" expects
// one value, and "=..." allows several values. A key with the suffix "." accepts a value for any
// longer name. Keys without a suffix are flags. The keys "label." and "annotation." are always
// accepted.
func readOptions(words []string, keys ...string) (options, error) {
	o := options{
		values:      map[string][]string{},
		flags:       map[string]bool{},
		labels:      map[string]any{},
		annotations: map[string]any{},
	}
	for _, word := range words {
		key, value, hasValue := strings.Cut(word, "=")
		switch {
		case hasValue && strings.HasPrefix(key, "label."):
			o.labels[strings.TrimPrefix(key, "label.")] = value
		case hasValue && strings.HasPrefix(key, "annotation."):
			o.annotations[strings.TrimPrefix(key, "annotation.")] = value
		case hasValue && slices.Contains(keys, key+"=") && o.values[key] != nil:
			return o, fmt.Errorf("option %s= given twice", key)
		case hasValue && knownKey(key, keys):
			o.values[key] = append(o.values[key], value)
		case !hasValue && !strings.HasSuffix(key, ".") && slices.Contains(keys, key):
			o.flags[key] = true
		default:
			return o, fmt.Errorf("unknown option %q", word)
		}
	}
	return o, nil
}

func knownKey(key string, keys []string) bool {
	for _, k := range keys {
		if key+"=" == k || key+"=..." == k ||
			strings.HasSuffix(k, ".") && strings.HasPrefix(key, k) && len(key) > len(k) {
			return true
		}
	}
	return false
}

// one returns the only value for a key, or the default in otherwise.
func (o options) one(key, otherwise string) string {
	if values := o.values[key]; len(values) > 0 {
		return values[0]
	}
	return otherwise
}

// under returns the values of PREFIX.NAME=VALUE options by name.
func (o options) under(prefix string) map[string]any {
	found := map[string]any{}
	for key, values := range o.values {
		if name, ok := strings.CutPrefix(key, prefix+"."); ok {
			found[name] = values[len(values)-1]
		}
	}
	return found
}
