//go:build unix

package checker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func items(n int) []Item {
	list := make([]Item, n)
	for i := range list {
		list[i] = Item{ID: fmt.Sprint(i), Prompt: "p", Text: "t<&>"}
	}
	return list
}

func score(x float64) *float64 { return &x }

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, command string
		want          []Verdict
	}{
		{"line by line", `while read -r l; do id=${l#*\"id\":\"}; id=${id%%\"*}; echo "{\"id\":\"$id\",\"score\":0.$id}"; done`,
			[]Verdict{{ID: "0", Score: score(0)}, {ID: "1", Score: score(0.1)}, {ID: "2", Score: score(0.2)}}},
		{"in the end, any order, blank lines, other keys",
			`cat >/dev/null; printf '{"id":2,"label":"right","x":[1]}\n\n{"id":"0","score":1,"label":"wrong"}\n\n{"id":"1","score":0}'`,
			[]Verdict{{ID: "0", Score: score(1), Label: "wrong"}, {ID: "1", Score: score(0)}, {ID: "2", Label: "right"}}},
		{"that reads nothing", `for i in 0 1 2; do echo "{\"id\":\"$i\",\"score\":1}"; done; echo fine >&2`,
			[]Verdict{{ID: "0", Score: score(1)}, {ID: "1", Score: score(1)}, {ID: "2", Score: score(1)}}},
	} {
		got, err := (&Checker{Command: c.command}).Check(t.Context(), items(3))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
	if got, err := (&Checker{Command: "exit 1"}).Check(t.Context(), nil); got != nil || err != nil {
		t.Errorf("no texts: %v, %v", got, err)
	}
}

// The command sees the texts as documented.
func TestCheckInput(t *testing.T) {
	list := []Item{{ID: "a", Prompt: "1<2?", Text: "yes\n"}, {ID: "b", Messages: []Message{{"user", "hi"}}, Text: ""}}
	_, err := (&Checker{Command: "cat >&2; exit 9"}).Check(t.Context(), list)
	want := `{"id":"a","prompt":"1<2?","text":"yes\n"}` + "\n" + `{"id":"b","messages":[{"role":"user","content":"hi"}],"text":""}`
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 9 after 0 of 2 verdicts\nits error stream: "+want) {
		t.Error(err)
	}
}

func TestCheckFaults(t *testing.T) {
	brief := 300 * time.Millisecond
	for _, c := range []struct {
		name, command string
		timeout       time.Duration
		want          string
	}{
		{"no command", "  ", 0, "checker: the command is empty"},
		{"unknown command", "no-such-program-here", 0, "exit status 127 after 0 of 2 verdicts\nits error stream: "},
		{"dies", `echo '{"id":"0","score":1}'; echo boom >&2; exit 3`, 0, "ended with exit status 3 after 1 of 2 verdicts\nits error stream: boom"},
		{"dies having judged", `echo '{"id":"0","score":1}'; echo '{"id":"1","score":1}'; exit 3`, 0, "exit status 3 after 2 of 2"},
		{"hangs", `echo '{"id":"0","score":1}'; echo slow >&2; sleep 60`, brief, "not done within 300ms: 1 of 2 texts were judged; it is killed\nits error stream: slow"},
		{"child hangs", `sleep 60 & wait`, brief, "not done within"},
		{"garbage", `echo hello; sleep 60`, 0, `line 1 of its output is not a JSON object such as {"id":"7","score":0.5}: hello`},
		{"binary", `printf '\377\376\n'`, 0, "line 1 of its output is not a JSON object"},
		{"list", `echo '[1]'`, 0, "line 1 of its output is not a JSON object"},
		{"endless line", `yes | tr -d '\n'`, 0, "line 1 of its output is longer than 1048576 bytes"},
		{"endless blanks", `yes ''`, 0, "line 1005 of its output is one too many for 2 texts"},
		{"silent", `cat >/dev/null`, 0, `judged only 0 of 2 texts: there is no line with "id":"0"`},
		{"misses one", `echo '{"id":"0","score":1}'`, 0, `judged only 1 of 2 texts: there is no line with "id":"1"`},
		{"twice", `echo '{"id":"0","score":1}'; echo '{"id":"0","score":1}'`, 0, `line 2 of its output judges the id "0" again`},
		{"unknown id", `echo '{"id":"x","score":1}'`, 0, `line 1 of its output judges the id "x", which no text has`},
		{"no id", `echo '{"score":1}'`, 0, `line 1 of its output has no "id"`},
		{"no verdict", `echo '{"id":"0"}'`, 0, `has neither "score" nor "label"`},
		{"score range", `echo '{"id":"0","score":7}'`, 0, "has score 7, want 0 to 1"},
		{"score type", `echo '{"id":"0","score":"good"}'`, 0, `has a string for "score"`},
		{"label type", `echo '{"id":"0","label":1}'`, 0, `has a number for "label"`},
		{"much on the error stream", `yes abcdefg | head -c 100000 >&2; exit 1`, 0, "its error stream: …"},
	} {
		_, err := (&Checker{Command: c.command, Timeout: c.timeout}).Check(t.Context(), items(2))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		} else if len(err.Error()) > stderrKept+400 {
			t.Errorf("%s: the error has %d bytes", c.name, len(err.Error()))
		}
	}
	for _, list := range [][]Item{{{ID: "a"}, {ID: "a"}}, {{}}} {
		if _, err := (&Checker{Command: "cat"}).Check(t.Context(), list); err == nil || !strings.Contains(err.Error(), "is empty or used twice") {
			t.Errorf("%v: %v", list, err)
		}
	}
}

func TestCheckCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("interrupted")
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if _, err := (&Checker{Command: "sleep 60"}).Check(ctx, items(1)); !errors.Is(err, cause) {
		t.Error(err)
	}
}

func FuzzVerdict(f *testing.F) {
	f.Add([]byte(`{"id":"0","score":0.5}`))
	f.Add([]byte("{\"id\":1,\"label\":\"x\"}\n\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := newReader(items(3))
		if err != nil {
			t.Fatal(err)
		}
		r.abort = func(error) {}
		if _, err := r.Write(data); err != nil {
			return
		}
		if r.end() == nil && r.judged != 3 {
			t.Errorf("%q: no error with %d verdicts", data, r.judged)
		}
	})
}
