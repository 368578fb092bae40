//go:build unix

package checker

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/internal/nano/chat"
)

func TestReadQuestions(t *testing.T) {
	list, err := ReadQuestions(strings.NewReader(`{"prompt":"a"}
{"id":"x","messages":[{"role":"system","content":"s"},{"role":"user","content":"b"}]}

{"id":7,"prompt":"c"}`))
	want := []Question{{ID: "1", Turns: []Message{{"user", "a"}}},
		{ID: "x", Turns: []Message{{"system", "s"}, {"user", "b"}}}, {ID: "7", Turns: []Message{{"user", "c"}}}}
	for i := range list {
		list[i].Record = chat.Record{}
	}
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"":                             "it holds no prompt",
		`{"prompt":"a","messages":[]}`: "both",
		`{"prompt":""}`:                "is missing or empty",
		`{"id":"1"}`:                   "is missing or empty",
		`{"prompt":"a","colour":1}`:    "line 1:",
		"{\"id\":2,\"prompt\":\"a\"}\n{\"prompt\":\"b\"}":   `line 2: the id "2" is used twice`,
		`{"messages":[{"role":"assistant","content":"b"}]}`: "must end with the user's turn",
	} {
		if _, err := ReadQuestions(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", text, err, want)
		}
	}
}

// TestNanoJudges: the built-in judges agree with the data sets about every
// chosen and rejected answer.
func TestNanoJudges(t *testing.T) {
	judge := (&Checker{Command: NanoShown}).JudgeOf()
	for _, set := range chat.Sets() {
		if set.Use != chat.Pairs {
			continue
		}
		var b bytes.Buffer
		if err := chat.WriteRecords(&b, set.Records(chat.Test, 1, 20)); err != nil {
			t.Fatal(err)
		}
		list, err := ReadQuestions(&b)
		if err != nil {
			t.Fatalf("%s: %v", set.Name, err)
		}
		for side, want := range []float64{1, 0} {
			texts := make([]string, len(list))
			for i, q := range list {
				texts[i] = []string{q.Record.Chosen, q.Record.Rejected}[side]
			}
			got, err := judge(t.Context(), list, texts)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				if *v.Score != want || v.Label == "" || v.ID != list[i].ID {
					t.Errorf("%s: %q is judged %v (%s), want %v", set.Name, texts[i], *v.Score, v.Label, want)
				}
			}
		}
	}
}

func TestNanoRight(t *testing.T) {
	s := chat.Sum{Numbers: []int{2, 3}}
	q := []Question{{ID: "1", Record: chat.Record{Sum: &s}}}
	judge := (&Checker{Command: NanoRight}).JudgeOf()
	for text, want := range map[string]string{s.Careful(): "careful, right", chat.HastyAnswer(5): "hasty, right", chat.HastyAnswer(6): "hasty, wrong", "five": "unknown"} {
		got, err := judge(t.Context(), q, []string{text})
		if err != nil || got[0].Label != want || (*got[0].Score == 1) != strings.HasSuffix(want, "right") {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
	for _, name := range []string{NanoShown, NanoRight} {
		j := (&Checker{Command: name}).JudgeOf()
		if _, err := j(t.Context(), []Question{{ID: "9"}}, []string{"x"}); err == nil || !strings.Contains(err.Error(), "prompt 9: "+name+" judges") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCommandJudge: a command sees the questions' ids.
func TestCommandJudge(t *testing.T) {
	j := (&Checker{Command: "cat >&2; exit 1"}).JudgeOf()
	_, err := j(t.Context(), []Question{{ID: "q", Turns: []Message{{"user", "hi"}}}, {ID: "r", Turns: []Message{{"system", "s"}, {"user", "hi"}}}}, []string{"x", "y"})
	want := `{"id":"q","prompt":"hi","text":"x"}` + "\n" + `{"id":"r","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"text":"y"}`
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
}
