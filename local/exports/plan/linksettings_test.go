package plan

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestReadLinkSettings checks the annotations that select the kinds of objects for a link's
// exports.
func TestReadLinkSettings(t *testing.T) {
	flag, err := ParsePatterns("shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		exports, namespaces string
		joins               Joins
		allow, warning      string
	}{
		{"-", "-", JoinsAll, "shop", ""},
		{" all ", "team-*,!team-x", JoinsAll, "team-*,!team-x", ""},
		{"mirrors", "", OnlyMirror, "", ""},
		{"none", "-", JoinsNone, "shop", ""},
		{
			"nome", "team-*", Unreadable, "team-*",
			`annotation isthmus.io/exports: "nome" is not one of all, mirrors, none; the objects written for the ` +
				`cluster's exports stay unchanged`,
		},
		{
			"none", "Team", Unreadable, "shop",
			`annotation isthmus.io/export-namespaces: "Team" is not a namespace pattern: use patterns such as ` +
				`shop,team-*,!team-x, where * matches any sequence of characters ` +
				`and ! excludes a name; the objects written for the cluster's exports stay unchanged`,
		},
	} {
		annotations := make(map[string]string)
		for key, value := range map[string]string{exportsAnnotation: tc.exports, namespacesAnnotation: tc.namespaces} {
			if value != "-" {
				annotations[key] = value
			}
		}
		got, warnings := LinkSettings{Allow: flag}.Read(annotations)
		want, err := ParsePatterns(tc.allow)
		if err != nil {
			t.Fatal(err)
		}
		if got.Joins != tc.joins || fmt.Sprint(got.Allow) != fmt.Sprint(want) ||
			strings.Join(warnings, " and ") != tc.warning {
			t.Errorf("%v: %+v, %q", annotations, got, warnings)
		}
	}
}

// TestReadExcludedLabels checks that the annotation for excluded labels overrides the flag.
func TestReadExcludedLabels(t *testing.T) {
	parse := func(list string) KeyPatterns {
		p, err := ParseKeyPatterns(list)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	defaults := LinkSettings{ExcludeLabels: parse("tmp-*")}
	for _, tc := range []struct {
		annotations map[string]string
		joins       Joins
		want        string
		warnings    int
	}{
		{nil, JoinsAll, "tmp-*", 0},
		{
			map[string]string{excludeLabelsAnnotation: " example.com/*,!example.com/a "}, JoinsAll,
			"example.com/*,!example.com/a", 0,
		},
		{map[string]string{excludeLabelsAnnotation: ""}, JoinsAll, "", 0},
		{map[string]string{excludeLabelsAnnotation: "a b", exportsAnnotation: "none"}, Unreadable, "tmp-*", 1},
		{map[string]string{excludeLabelsAnnotation: strings.Repeat("a,", 65)}, Unreadable, "tmp-*", 1},
	} {
		got, warnings := defaults.Read(tc.annotations)
		if got.Joins != tc.joins || !reflect.DeepEqual(got.ExcludeLabels, parse(tc.want)) ||
			len(warnings) != tc.warnings {
			t.Errorf("%v: %+v, %q", tc.annotations, got, warnings)
		}
	}
}

// FuzzReadLinkSettings checks that each invalid annotation causes one short warning. The settings
// are then Unreadable.
func FuzzReadLinkSettings(f *testing.F) {
	f.Add("all", "shop,team-*,!team-x", "example.com/*,!tmp")
	f.Add("nome", "!,", "!")
	f.Add(" none\n", strings.Repeat("É", 400), strings.Repeat("*a", 200))
	f.Fuzz(func(t *testing.T, exports, namespaces, labels string) {
		annotations := map[string]string{
			exportsAnnotation: exports, namespacesAnnotation: namespaces, excludeLabelsAnnotation: labels,
		}
		all, warnings := LinkSettings{}.Read(annotations)
		if (all.Joins == Unreadable) != (len(warnings) > 0) || all.Joins > Unreadable || len(warnings) > 3 {
			t.Fatalf("%q: %v, %q", annotations, all.Joins, warnings)
		}
		for _, w := range warnings {
			if len(w) > 1024 || !strings.HasSuffix(w, "stay unchanged") {
				t.Fatalf("%q: %q", annotations, w)
			}
		}
	})
}
