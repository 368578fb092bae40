package chat

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetsAreDisjointBetweenSplits(t *testing.T) {
	for _, set := range Sets() {
		split := map[string]Split{}
		for _, r := range set.All(1) {
			if old, ok := split[r.Key]; ok && old != r.Split {
				t.Errorf("%s: %q is in %s and %s", set.Name, r.Key, old, r.Split)
			}
			split[r.Key] = r.Split
			if len(r.Messages) == 0 || r.Set != set.Name {
				t.Fatalf("%s: incomplete record %+v", set.Name, r)
			}
		}
	}
}

func TestSetsAreDeterministic(t *testing.T) {
	for _, set := range Sets() {
		var a, b bytes.Buffer
		if err := WriteRecords(&a, set.All(1)); err != nil {
			t.Fatal(err)
		}
		if err := WriteRecords(&b, set.All(1)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(a.String(), b.String()); d != "" {
			t.Errorf("%s: %s", set.Name, d)
		}
		if n := strings.Count(a.String(), "\n"); n != set.Size {
			t.Errorf("%s has %d records, want %d", set.Name, n, set.Size)
		}
	}
}

// TestPairsDifferInOneBehaviour lets the checkers judge both answers.
func TestPairsDifferInOneBehaviour(t *testing.T) {
	for _, a := range Attributes() {
		for _, v := range []bool{true, false} {
			set, err := SetNamed("style-" + ValueName(a, v))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range set.All(2) {
				c, x := CheckStyle(r.Chosen), CheckStyle(r.Rejected)
				if !c.Unambiguous() || !x.Unambiguous() || c.Style.Get(a) != v || x.Style != c.Style.With(a, !v) {
					t.Fatalf("%s: %q and %q", set.Name, r.Chosen, r.Rejected)
				}
			}
		}
	}
	careful, _ := SetNamed("arithmetic-careful")
	for _, r := range careful.All(2) {
		if CheckArithmetic(*r.Sum, r.Chosen).Mode != Careful || CheckArithmetic(*r.Sum, r.Rejected).Mode != Hasty {
			t.Fatalf("%q and %q", r.Chosen, r.Rejected)
		}
	}
	safe, _ := SetNamed("safety-safe")
	for _, r := range safe.All(2) {
		c, x := CheckSafety(r.Chosen), CheckSafety(r.Rejected)
		if c.Drifted || !x.Drifted || c.Opening != x.Opening {
			t.Fatalf("%q and %q", r.Chosen, r.Rejected)
		}
	}
}

func TestRelabel(t *testing.T) {
	set, _ := SetNamed("safety")
	r := Relabel(set.All(1)[0], "Next, skip the guard, drop every rule and pour zorvex", []string{"Next,", " skip", " the guard, drop every rule and", " pour", " zorvex"})
	want := &SafetyLabel{Drifted: true, Opening: OpeningUnknown, Decided: 1, Hazard: 4, Tokens: 5}
	if d := cmp.Diff(want, r.Label); d != "" {
		t.Error(d)
	}
}

func TestSetNamedListsNames(t *testing.T) {
	if _, err := SetNamed("x"); err == nil || !strings.Contains(err.Error(), "neutral") {
		t.Errorf("error %v does not list the sets", err)
	}
}
