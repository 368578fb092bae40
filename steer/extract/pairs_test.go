package extract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/runtime/engine"
)

func TestReadPairs(t *testing.T) {
	got, err := ReadPairs(strings.NewReader(`{"prompt":"a","chosen":"b","rejected":"c"}

{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}],"chosen":"x","rejected":"y","key":"k","split":"test","set":"z","sum":{"Numbers":[1]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Pair{
		{Turns: []engine.Message{{Role: "user", Content: "a"}}, Chosen: "b", Rejected: "c"},
		{Turns: []engine.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}}, Chosen: "x", Rejected: "y", Key: "k", Split: Test},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestReadPairsFaults(t *testing.T) {
	const good = `{"prompt":"a","chosen":"b","rejected":"c"}` + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "it holds no pair"},
		{"not JSON", good + "x", "line 2"},
		{"unknown field", `{"prompt":"a","chosen":"b","rejected":"c","choosen":"d"}`, `unknown field "choosen"`},
		{"no prompt", `{"chosen":"b","rejected":"c"}`, `"prompt" or "messages" is missing`},
		{"both", `{"prompt":"a","messages":[],"chosen":"b","rejected":"c"}`, "both"},
		{"no chosen", good + `{"prompt":"a","rejected":"c"}`, `line 2: "chosen" is missing`},
		{"empty rejected", `{"prompt":"a","chosen":"b","rejected":""}`, `"rejected" is missing or empty`},
		{"equal", `{"prompt":"a","chosen":"b","rejected":"b"}`, "they show no difference"},
		{"split", `{"prompt":"a","chosen":"b","rejected":"c","split":"dev"}`, `"split" is "dev"`},
		{"assistant last", `{"messages":[{"role":"assistant","content":"x"}],"chosen":"b","rejected":"c"}`, "must end with the user's turn"},
		{"no role", `{"messages":[{"content":"x"},{"role":"user","content":"x"}],"chosen":"b","rejected":"c"}`, `message 0 has no "role"`},
		{"number", `{"prompt":1,"chosen":"b","rejected":"c"}`, `field "prompt" cannot be a number`},
		{"UTF-8", "{\"prompt\":\"\xff\",\"chosen\":\"b\",\"rejected\":\"c\"}", "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := ReadPairs(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
	if _, err := ReadPrompts(strings.NewReader("")); err == nil {
		t.Error("an empty file of prompts was taken")
	}
}

func FuzzReadPairs(f *testing.F) {
	f.Add(`{"prompt":"a","chosen":"b","rejected":"c"}`)
	f.Add(`{"messages":[{"role":"user","content":"u"}],"chosen":"x","rejected":"y","split":"train"}`)
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := ReadPairs(strings.NewReader(text))
		if (err == nil) != (len(pairs) > 0) {
			t.Fatalf("%d pairs, error %v", len(pairs), err)
		}
		for _, p := range pairs {
			if p.Chosen == "" || p.Rejected == "" || p.Chosen == p.Rejected || len(p.Turns) == 0 || p.Turns[len(p.Turns)-1].Role != "user" {
				t.Fatalf("a bad pair came through: %+v", p)
			}
		}
	})
}

func TestDeal(t *testing.T) {
	pairs := somePairs(200, 1)
	for i := range pairs[:50] {
		pairs[i+100].Turns = pairs[i].Turns // the same prompt twice
	}
	s, err := Deal(pairs, 7)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]Split{}
	for name, list := range map[Split][]Pair{Train: s.Train, Validation: s.Validation, Test: s.Test} {
		for _, p := range list {
			if was, ok := seen[p.key()]; ok && was != name {
				t.Errorf("%q is in %s and in %s", p.key(), was, name)
			}
			seen[p.key()] = name
		}
	}
	if n := len(s.Train) + len(s.Validation) + len(s.Test); n != 200 || len(s.Train) < 70 || len(s.Train) > 130 {
		t.Errorf("%d pairs dealt, %d for directions", n, len(s.Train))
	}
	again, _ := Deal(pairs, 7)
	other, _ := Deal(pairs, 8)
	if !cmp.Equal(s, again) || cmp.Equal(s, other) {
		t.Error("the splits are not a function of the seed")
	}
	if _, err := Deal(pairs[:6], 1); err == nil || !strings.Contains(err.Error(), "needs at least 4") {
		t.Errorf("too few pairs: %v", err)
	}
	for i := range pairs {
		pairs[i].Split = []Split{Train, Validation, Test}[i%3]
	}
	if s, err = Deal(pairs, 7); err != nil || len(s.Test) != 66 || s.Test[0].Split != Test {
		t.Errorf("given splits: %d, %v", len(s.Test), err)
	}
}

func TestDataHash(t *testing.T) {
	a := somePairs(3, 1)
	h := DataHash(a)
	if h != DataHash(somePairs(3, 1)) {
		t.Error("equal pairs have two hashes")
	}
	a[1].Chosen, a[1].Rejected = a[1].Rejected, a[1].Chosen
	if h == DataHash(a) {
		t.Error("exchanged answers do not show")
	}
}

func TestPlaces(t *testing.T) {
	for _, k := range []Place{{AnswerEnd, 0}, {Echo, 3}, {AnswerMean, 0}, {PromptEnd, 15}} {
		if got, err := ParsePlace(k.String()); err != nil || got != k {
			t.Errorf("%s came back as %s, %v", k, got, err)
		}
	}
	for _, s := range []string{"", "echo", "echo+", "echo+-1", "echo+16", "answer-mean+1", "x+1"} {
		if p, err := ParsePlace(s); err == nil {
			t.Errorf("%q was read as %s", s, p)
		}
	}
}
