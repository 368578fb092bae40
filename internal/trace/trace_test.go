package trace

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func whole() *Trace {
	lp := -0.25
	return &Trace{
		Start: Start{Kind: "start", Version: Version, Model: "m", Hash: "h", Config: Config{Seed: math.MaxUint64, Sampler: "s", MaxTokens: 3}, Prompt: []int32{1, 2}},
		Steps: []Step{
			{Kind: "step", Piece: Bytes("a<b>"), Token: 5, Logprob: &lp, Verdicts: []Verdict{{Monitor: "x", Score: 1e-300, Flag: true}}, Action: Action{Kind: "rewind", Ban: []int32{5}}, Text: "é"},
			{Kind: "step", Piece: Bytes{0xff, 'a'}, Action: Action{Kind: "commit"}, Raw: Floats{1, float32(math.Inf(-1)), -0.0}, Activations: map[string]Floats{"1.post": {0.1}}},
		},
		End: End{Kind: "end", Finish: "stop", Text: "é", Tokens: []int32{}},
	}
}

func text(t testing.TB, tr *Trace) string {
	t.Helper()
	var b bytes.Buffer
	records := []any{tr.Start}
	for _, s := range tr.Steps {
		records = append(records, s)
	}
	for _, r := range append(records, tr.End) {
		if err := Write(&b, r); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	want := whole()
	lines := text(t, want)
	got, err := Read(strings.NewReader(lines))
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
	if !strings.Contains(lines, `"a<b>"`) {
		t.Error("pieces are hard to read")
	}
}

func TestFaults(t *testing.T) {
	good := text(t, whole())
	lines := strings.SplitAfter(good, "\n")
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "it is empty"},
		{"no start", lines[1], `record "step" where the trace must start`},
		{"version", strings.Replace(good, `"version":1`, `"version":2`, 1), "version 2"},
		{"unknown field", strings.Replace(good, `"index"`, `"indexx"`, 1), "indexx"},
		{"unknown record", lines[0] + `{"kind":"stop"}`, `line 2: unknown record "stop"`},
		{"no JSON", lines[0] + "what", "unknown record"},
		{"floats", strings.Replace(good, `"raw":"`, `"raw":"AAAA`, 1), "float32"},
		{"behind the end", good + "{}", "something follows"},
		{"write fails", "", ""},
	} {
		if tt.name == "write fails" {
			if Write(broken{}, Start{}) == nil || Write(broken{}, math.NaN()) == nil {
				t.Error("no error from Write")
			}
			continue
		}
		if _, err := Read(strings.NewReader(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	tr, err := Read(strings.NewReader(strings.Join(lines[:3], "")))
	if !errors.Is(err, ErrBreaksOff) || len(tr.Steps) != 2 {
		t.Errorf("%v, %+v", err, tr)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// FuzzRead: whatever is read once is written and read again as the same.
func FuzzRead(f *testing.F) {
	f.Add(text(f, whole()))
	f.Add(`{"kind":"start","version":1}`)
	f.Fuzz(func(t *testing.T, in string) {
		a, err := Read(strings.NewReader(in))
		if err != nil {
			return
		}
		once := text(t, a)
		b, err := Read(strings.NewReader(once))
		if err != nil {
			t.Fatalf("%v in %q", err, once)
		}
		if again := text(t, b); again != once {
			t.Fatalf("%q\n%q", once, again)
		}
	})
}
