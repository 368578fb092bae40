package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func TestText(t *testing.T) {
	words := []string{"ST", "OP", "</s", "\xe2\x82", "\xac", "aa"}
	for _, tt := range []struct {
		name, says string
		stop       []string
		max        int
		want       string
		finish     FinishReason
		found      string
	}{
		{name: "plain", says: "I am a fake.", want: "I am a fake.", finish: FinishStop},
		{name: "empty answer", says: "", want: "", finish: FinishStop},
		{name: "length", says: "I am a fake.", max: 4, want: "I am", finish: FinishLength},
		{name: "stop in one token", says: "one ST two", stop: []string{"ST"}, want: "one ", finish: FinishStop, found: "ST"},
		{name: "stop across tokens", says: "one STOP two", stop: []string{"STOP"}, want: "one ", finish: FinishStop, found: "STOP"},
		{name: "stop ends inside a token", says: "one STOP two", stop: []string{"TO"}, want: "one S", finish: FinishStop, found: "TO"},
		{name: "almost a stop", says: "one STO two", stop: []string{"STOP"}, want: "one STO two", finish: FinishStop},
		{name: "begun stop at the end", says: "one STO", stop: []string{"STOP"}, want: "one STO", finish: FinishStop},
		{name: "first to end wins", says: "abcde", stop: []string{"bcd", "c"}, want: "ab", finish: FinishStop, found: "c"},
		{name: "longest of equal end", says: "abcde", stop: []string{"c", "bc"}, want: "a", finish: FinishStop, found: "bc"},
		{name: "overlapping begins", says: "aaaab", stop: []string{"aab"}, want: "aa", finish: FinishStop, found: "aab"},
		{name: "stop at once", says: "END", stop: []string{"E"}, want: "", finish: FinishStop, found: "E"},
		{name: "stop of many bytes", says: "3 \xe2\x82\xac!", stop: []string{"€"}, want: "3 ", finish: FinishStop, found: "€"},
		{name: "split character", says: "3 \xe2\x82\xac!", want: "3 €!", finish: FinishStop},
		{name: "invalid bytes", says: "a\xff\xe2\x82b\x80", want: "a\ufffd\ufffd\ufffdb\ufffd", finish: FinishStop},
		{name: "cut character at the end", says: "a\xe2\x82", want: "a\ufffd\ufffd", finish: FinishStop},
		{name: "cut character at the limit", says: "a\xe2\x82\xac", max: 2, want: "a\ufffd\ufffd", finish: FinishLength},
	} {
		for _, hold := range []int{0, 1, 3, 100} {
			eng := saying(t, tt.says, words...)
			r, streamed, err := generate(t, Config{Engine: eng, Prompt: prompt, Stop: tt.stop, MaxTokens: tt.max, HoldBack: hold})
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if r.Text != tt.want || streamed != tt.want || r.FinishReason != tt.finish || r.StopString != tt.found {
				t.Errorf("%s, hold %d: text %q, streamed %q, %s, found %q", tt.name, hold, r.Text, streamed, r.FinishReason, r.StopString)
			}
			if !utf8.ValidString(r.Text) {
				t.Errorf("%s: invalid UTF-8", tt.name)
			}
		}
	}
}

func TestConfigFaults(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{Context: 64, Cells: 64, NoRewind: true, NoCapture: true})
	bare := fake(t, enginetest.FakeConfig{NoTokenizer: true})
	wide := must(steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: 99}, Vector: []float32{1}, Scale: 1}))
	start := func() monitors.Watcher { return &seen{} }
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string
		is   error
	}{
		{"no engine", Config{}, []string{"no engine"}, nil},
		{"no prompt", Config{Engine: eng}, []string{"prompt is empty"}, nil},
		{"prompt token", Config{Engine: eng, Prompt: []decode.Token{1, 9999}}, []string{"prompt token 9999 at 1"}, nil},
		{"negative token", Config{Engine: eng, Prompt: []decode.Token{-1}}, []string{"prompt token -1 at 0"}, nil},
		{"prompt too long", Config{Engine: eng, Prompt: make([]decode.Token, 64)}, []string{"64 fit"}, engine.ErrContextFull},
		{"answer too long", Config{Engine: eng, Prompt: make([]decode.Token, 10), MaxTokens: 55}, []string{"prompt of 10 tokens, 55 to generate"}, engine.ErrContextFull},
		{"huge", Config{Engine: eng, Prompt: make([]decode.Token, 10), MaxTokens: 1<<63 - 1}, nil, engine.ErrContextFull},
		{"negative", Config{Engine: eng, Prompt: prompt, MaxTokens: -1}, []string{"most tokens is -1"}, nil},
		{"hold without rewind", Config{Engine: eng, Prompt: prompt, HoldBack: 3}, []string{"hold-back"}, engine.ErrUnsupported},
		{"hold too long", Config{Engine: eng, Prompt: prompt, HoldBack: 1 << 20}, []string{"must be 0 to 4096"}, nil},
		{"capture", Config{Engine: eng, Prompt: prompt, Monitors: []monitors.Monitor{{Name: "m", Start: start, Sites: []steer.Site{{Layer: 1}}}}}, []string{`monitor "m"`}, engine.ErrUnsupported},
		{"stop without tokenizer", Config{Engine: bare, Prompt: prompt, Stop: []string{"x"}}, []string{"need a tokenizer"}, nil},
		{"plan", Config{Engine: eng, Prompt: prompt, Plan: wide}, []string{"layers 0 to 3", "vector is 1 wide"}, nil},
		{"everything", Config{Engine: eng, Prompt: prompt, Stop: []string{"", "\xff", strings.Repeat("x", 300)}, TopLogprobs: 21, OnFault: 7,
			End: []decode.Token{-5}, Monitors: []monitors.Monitor{{Name: "a"}, {Name: "a", Start: start}, {Start: start}}},
			[]string{"stop string 0", "stop string 1", "stop string 2", "top log-probabilities 21", "need Logprobs", "unknown fault mode 7",
				"end token -5", `"a": Start is nil`, `monitor 1: the name "a"`, `monitor 2: the name ""`}, nil},
	} {
		_, err := NewSession(context.Background(), tt.cfg)
		if err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q misses %q", tt.name, err, w)
			}
		}
		if tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %q is not %q", tt.name, err, tt.is)
		}
	}
}

func TestClampAndFullContext(t *testing.T) {
	for _, tt := range []struct {
		name  string
		max   int
		clamp bool
		want  int
	}{
		{"until full", 0, false, 64 - len(prompt)},
		{"clamped", 1000, true, 64 - len(prompt)},
		{"fits", 5, true, 5},
	} {
		eng := fake(t, enginetest.FakeConfig{Context: 64})
		r, _, err := generate(t, Config{Engine: eng, Prompt: prompt, MaxTokens: tt.max, ClampMaxTokens: tt.clamp, End: []decode.Token{}})
		if err != nil || len(r.Tokens) != tt.want || r.FinishReason != FinishLength {
			t.Errorf("%s: %d tokens, %v, %v", tt.name, len(r.Tokens), r.FinishReason, err)
		}
	}
}

func TestLogprobs(t *testing.T) {
	eng := saying(t, "yes")
	r, _, err := generate(t, Config{Engine: eng, Prompt: prompt, Logprobs: true, TopLogprobs: 2})
	if err != nil || len(r.Logprobs) != 3 {
		t.Fatalf("%d log-probabilities, %v", len(r.Logprobs), err)
	}
	for i, lp := range r.Logprobs {
		if len(lp.Top) != 2 || lp.Top[0].Token != r.Tokens[i] || lp.Top[0].Logprob != lp.Logprob || lp.Logprob < -1e-3 {
			t.Errorf("token %d: %+v", i, lp)
		}
	}
}

func TestSeeds(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{})
	run := func(seed uint64) string {
		r, _, err := generate(t, Config{Engine: eng, Prompt: prompt, MaxTokens: 40, Sampler: decode.Categorical{}, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return r.Text
	}
	if a, b, c := run(1), run(1), run(2); a != b || a == c {
		t.Errorf("seeds 1, 1, 2 gave %q, %q, %q", a, b, c)
	}
}

func TestCancelAndClose(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	s := must(NewSession(ctx, Config{Engine: eng, Prompt: prompt, MaxTokens: 100, HoldBack: 2}))
	first, err := s.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.Result() != nil {
		t.Error("a result before the end")
	}
	cancel()
	_, err = s.Next(ctx)
	r := s.Result()
	if !errors.Is(err, context.Canceled) || r == nil || r.FinishReason != FinishCancelled || r.Text != string(first.Text) {
		t.Errorf("after cancel: %v, %+v", err, r)
	}
	if !strings.Contains(err.Error(), "step 3") {
		t.Errorf("%q does not name the step", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	open := must(NewSession(context.Background(), Config{Engine: eng, Prompt: prompt}))
	if err := errors.Join(open.Close(), open.Close()); err != nil {
		t.Error(err)
	}
	if _, err := open.Next(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestPromptChunks(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{MaxBatch: 8, Record: true})
	whole := fake(t, enginetest.FakeConfig{})
	long := enginetest.Tokens(strings.Repeat("abc ", 9))
	cfg := Config{Prompt: long, MaxTokens: 10}
	cfg.Engine = eng
	a, _, err := generate(t, cfg)
	cfg.Engine = whole
	b, _, err2 := generate(t, cfg)
	if err != nil || err2 != nil || !cmp.Equal(a.Tokens, b.Tokens) {
		t.Errorf("chunked %v %v, whole %v %v", a, err, b, err2)
	}
	for i, f := range eng.Log() {
		if wantLast := i >= 4; (f.Output == engine.OutputLast) != wantLast || (f.Phase == steer.PhasePrompt) != (i < 5) || f.Rows > 8 {
			t.Errorf("feed %d: %+v", i, f)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
