package perceiver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/monitortest"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// critic is a script that knows three words: it says V of a text with "harm" or
// "mean", and of "odd" as well, without a principle that it violates.
func critic(t enginetest.Text) decode.Token {
	var b []byte
	for _, tok := range t.Tokens {
		if tok >= 0 && tok < 256 {
			b = append(b, byte(tok))
		}
	}
	text := string(b)
	_, text, _ = strings.Cut(text, "Text:\n")
	text, answers, asked := strings.Cut(text, DefaultReadout+" ")
	bad := func(word string) bool { return strings.Contains(text, word) }
	switch {
	case !asked:
		return -1
	case answers == "" && (bad("harm") || bad("mean") || bad("odd")):
		return 'V'
	case answers == "":
		return 'R'
	case strings.HasSuffix(answers, "\nSafety: ") && bad("harm"), strings.HasSuffix(answers, "\nAltruism: ") && bad("mean"):
		return '-'
	case strings.HasSuffix(answers, "\nSafety: "), strings.HasSuffix(answers, "\nAltruism: "):
		return '1'
	case strings.HasSuffix(answers, ": "):
		return '0'
	}
	return -1
}

func fake(t testing.TB, change func(*enginetest.FakeConfig)) *enginetest.Fake {
	t.Helper()
	cfg := enginetest.FakeConfig{Script: critic, Layers: 1, Width: 8, MaxSequences: 16}
	if change != nil {
		change(&cfg)
	}
	e, err := enginetest.NewFake(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func perceiver(t testing.TB, e engine.Engine, o Options) *Perceiver {
	t.Helper()
	p, err := New(context.Background(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func monitor(t testing.TB, p *Perceiver, request string) monitors.Monitor {
	t.Helper()
	m, err := p.Monitor(request)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// say shows a text to a watcher, one word with the space before it at a time.
func say(t testing.TB, w monitors.Watcher, step int, text string) (all []monitors.Verdict) {
	t.Helper()
	for i, word := range strings.SplitAfter(text, " ") {
		if word == "" {
			break
		}
		v, err := w.Observe(context.Background(), &monitors.Observation{Step: step + i, Piece: []byte(word)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		text  string
		at    int // the flagged token, -1 for none
		onset int
		note  string
	}{
		{"all is well and good here. So it goes on and on. ", -1, 0, ""},
		{"all is well and good here. So it does harm to you. And on. ", 11, 5, "violates Safety; signs -1 1 0"},
		{"one two three mean four five six seven eight nine ten", 7, 7, "violates Altruism; signs 1 -1 0"},
		{"this is an odd one. So it goes. ", -1, 0, "no violation; signs 1 1 0"},
		{"mean harm is both. ", 3, 3, "violates Safety; signs -1 -1 0"},
	} {
		p := perceiver(t, fake(t, nil), Options{Every: 8})
		at, note := -1, ""
		for i, v := range say(t, monitor(t, p, "").Start(), 0, c.text) {
			if v.Note != "" && note == "" {
				note = v.Note
			}
			if v.Flag && at < 0 {
				at = i
				if v.Onset != c.onset || v.Score < 1 {
					t.Errorf("%q: %+v, want onset %d", c.text, v, c.onset)
				}
				text, ok := p.Guidance(v.Note)
				if want, _ := Default().Guidance(strings.TrimSuffix(strings.Fields(c.note)[1], ";")); !ok || text != want {
					t.Errorf("%q: guidance %q for %q", c.text, text, v.Note)
				}
			}
		}
		if at != c.at || !strings.HasPrefix(note, c.note) {
			t.Errorf("%q: flagged at %d with %q, want %d and %q", c.text, at, note, c.at, c.note)
		}
	}
	p := perceiver(t, fake(t, nil), Options{})
	for _, note := range []string{"", "violates ", "violates Speed; signs", "no violation; signs 1 1 1"} {
		if text, ok := p.Guidance(note); ok {
			t.Errorf("guidance for %q: %q", note, text)
		}
	}
}

// TestMarginIsThatOfTheWholeText: what is read from forks, pieces and rewinds is
// what one feed of the whole text gives, to the bit.
func TestMarginIsThatOfTheWholeText(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	noisy := func(c *enginetest.FakeConfig) { c.Script = nil; c.Words = []string{" wo", "rd"} }
	for _, threshold := range []float64{-1e6, 1e6} { // signs always, and never
		p := perceiver(t, fake(t, noisy), Options{Every: 5, Threshold: threshold})
		judge := fake(t, noisy)
		w := monitor(t, p, "Tell me.").Start().(*watcher)
		step := 0
		for range 120 {
			if r.IntN(6) == 0 {
				n := r.IntN(min(9, step+1))
				if err := w.Rewind(n); err != nil {
					t.Fatal(err)
				}
				step -= n
			}
			before := len(w.checks)
			v := say(t, w, step, [...]string{" word", "a", ".", "\n", " \u00e9t\u00e9"}[r.IntN(5)])
			step += len(v)
			if len(w.checks) == before {
				continue
			}
			if want := direct(t, judge, p, w); v[len(v)-1].Score != want {
				t.Fatalf("step %d, %q: margin %v, of the whole text %v", step, w.text, v[len(v)-1].Score, want)
			}
		}
	}
}

// direct feeds everything that the last read-out saw to an empty sequence.
func direct(t *testing.T, e engine.Engine, p *Perceiver, w *watcher) float64 {
	t.Helper()
	c := w.checks[len(w.checks)-1]
	tokens := append([]decode.Token(nil), p.desk.prompt...)
	tokens = append(tokens, w.opening...)
	for _, c := range w.checks[c.from:] {
		tokens = append(tokens, c.piece.tokens...)
	}
	tail, err := w.encode(c.cut, w.ends[c.tokens-1])
	if err != nil {
		t.Fatal(err)
	}
	tokens = append(append(tokens, tail...), p.readout...)
	seq, err := e.NewSequence(context.Background(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	if err := e.Forward(context.Background(), []engine.Feed{{Seq: seq, Tokens: tokens, PromptLen: len(p.desk.prompt)}}); err != nil {
		t.Fatal(err)
	}
	return float64(seq.Logits()[p.v[0]]) - float64(seq.Logits()[p.r[0]])
}

// TestForksShareThePrompt: it is fed once, whatever the number of watchers, and
// no question leaves rows behind.
func TestForksShareThePrompt(t *testing.T) {
	e := fake(t, nil)
	p := perceiver(t, e, Options{Every: 4})
	prompt := len(p.desk.prompt)
	if e.RowsFed() != prompt {
		t.Fatalf("%d rows were fed for a prompt of %d", e.RowsFed(), prompt)
	}
	for range 3 {
		say(t, monitor(t, p, "").Start(), 0, "so it goes harm ")
	}
	if fed := e.RowsFed() - prompt; fed >= prompt {
		t.Errorf("three short texts took %d rows, the prompt has %d", fed, prompt)
	}
	want := prompt
	for _, at := range p.desk.places {
		want += at.seq.Len() - prompt
		if at.seq.Len() != at.rows[len(at.rows)-1] {
			t.Errorf("%d rows lie open, %d were read for good", at.seq.Len(), at.rows[len(at.rows)-1])
		}
	}
	if e.UsedCells() != want || e.OpenSequences() != 4 {
		t.Errorf("%d cells of %d, %d sequences", e.UsedCells(), want, e.OpenSequences())
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil || e.OpenSequences() != 0 {
		t.Errorf("after Close: %d sequences, %v", e.OpenSequences(), err)
	}
}

func draw(r *rand.Rand) monitortest.Input {
	words := []string{"harm ", "mean ", "well ", "so", " it", ". ", "\n", "odd ", "", "\xe2\x82", "\xac", "\xff"}
	return monitortest.Input{Piece: []byte(words[r.IntN(len(words))])}
}

// TestContract: walks, watchers side by side, faults and memory, also with one
// place for all watchers, without forks, and with texts that outgrow the
// context.
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Options
		engine  func(*enginetest.FakeConfig)
		request string
	}{
		{"plain", Options{}, nil, "What is it?"},
		{"one place", Options{Watchers: 1, Every: 7}, nil, ""},
		{"no forks", Options{Watchers: 2}, func(c *enginetest.FakeConfig) { c.NoFork = true; c.MaxSequences = 2 }, ""},
		{"outgrown", Options{Keep: 40}, func(c *enginetest.FakeConfig) { c.Context = 1500 }, ""},
		{"few cells", Options{Watchers: 3}, func(c *enginetest.FakeConfig) { c.Cells = 1600 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := perceiver(t, fake(t, c.engine), c.o)
			o := monitortest.Options{Next: draw, Walks: 3, Steps: 50}
			for _, check := range monitortest.Checks() {
				if check.Name == "memory" && c.name != "plain" {
					continue // slow, and no different
				}
				if err := check.Do(t.Context(), monitor(t, p, c.request), o); err != nil {
					t.Errorf("%s: %v", check.Name, err)
				}
			}
		})
	}
}

// TestOutgrown: the text slides, the watcher goes on, and the first words are
// forgotten.
func TestOutgrown(t *testing.T) {
	e := fake(t, func(c *enginetest.FakeConfig) { c.Context = 1500 })
	p := perceiver(t, e, Options{Keep: 60})
	w := monitor(t, p, "").Start().(*watcher)
	all := say(t, w, 0, "so much harm. "+strings.Repeat("all is well and good now. ", 60))
	if !all[3].Flag && !all[4].Flag && !all[8].Flag {
		t.Errorf("the harm was not seen: %+v", all[:9])
	}
	if last := all[len(all)-1]; last.Flag || w.checks[len(w.checks)-1].from == 0 {
		t.Errorf("the harm was not forgotten: %+v, from %d", last, w.checks[len(w.checks)-1].from)
	}
	if err := w.Rewind(len(all) - 6); err != nil {
		t.Fatal(err)
	}
	if v := say(t, w, 6, strings.Repeat("again. ", 8)); !v[0].Flag && !v[4].Flag {
		t.Errorf("the harm did not come back with a rewind: %+v", v)
	}
}

func TestEngineErrors(t *testing.T) {
	torn := errors.New("torn")
	fail := false
	e := fake(t, func(c *enginetest.FakeConfig) {
		c.Hooks.Before = func(context.Context, int, []engine.Feed) error {
			if fail {
				return torn
			}
			return nil
		}
	})
	p := perceiver(t, e, Options{Every: 4})
	w, twin := monitor(t, p, "").Start(), monitor(t, p, "").Start()
	say(t, w, 0, "so it goes on and so it ")
	want := say(t, twin, 0, "so it goes on and so it harm it now.")
	fail = true
	for range 3 {
		if _, err := w.Observe(context.Background(), &monitors.Observation{Step: 7, Piece: []byte("harm ")}); !errors.Is(err, torn) {
			t.Fatalf("the engine's error is %v", err)
		}
	}
	fail = false
	if got := say(t, w, 7, "harm it now."); !slices.Equal(got, want[7:]) || !got[0].Flag {
		t.Errorf("afterwards %+v, a watcher without faults %+v", got, want[7:])
	}
	p.Close()
	if _, err := w.Observe(context.Background(), &monitors.Observation{Step: 10, Piece: nil}); !errors.Is(err, errShut) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCancel: who waits for the engine can give up.
func TestCancel(t *testing.T) {
	p := perceiver(t, fake(t, nil), Options{Every: 1})
	if err := p.desk.take(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	w := monitor(t, p, "").Start()
	go func() {
		_, err := w.Observe(ctx, &monitors.Observation{Piece: []byte("word ")})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	p.desk.leave()
	if v := say(t, w, 0, "harm"); !v[0].Flag {
		t.Errorf("afterwards: %+v", v)
	}
}

func TestOptions(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		o      Options
		engine func(*enginetest.FakeConfig)
		want   []string
	}{
		{"all at once", Options{Every: -1, Keep: -1, Hierarchy: &Hierarchy{}}, nil, []string{"every -1 tokens", "-1 tokens to keep", "there are 0, want 1 to 8"}},
		{"no rewind", Options{}, func(c *enginetest.FakeConfig) { c.NoRewind = true }, []string{"rewind: not supported"}},
		{"no tokenizer", Options{}, func(c *enginetest.FakeConfig) { c.NoTokenizer = true }, []string{"has no tokenizer"}},
		{"small", Options{}, func(c *enginetest.FakeConfig) { c.Context = 700 }, []string{"context full", "700 fit"}},
	} {
		_, err := New(ctx, fake(t, c.engine), c.o)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", c.name, err, want)
			}
		}
	}
	p := perceiver(t, fake(t, func(c *enginetest.FakeConfig) { c.Context = 2000 }), Options{})
	if _, err := p.Monitor(strings.Repeat("x", 1e6)); !errors.Is(err, engine.ErrContextFull) {
		t.Errorf("a request that does not fit: %v", err)
	}
	e := fake(t, func(c *enginetest.FakeConfig) { c.Hooks.Before = enginetest.FailAt(1, fmt.Errorf("torn")) })
	if _, err := New(ctx, e, Options{}); err == nil || e.OpenSequences() != 0 {
		t.Errorf("a prompt that cannot be read: %v, %d sequences stay", err, e.OpenSequences())
	}
}

func TestSentenceEnds(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a": false, "a.": true, "a. ": true, "a.\" ": true, "a!*": true, "a\n": true, "a, ": false, "\u3053\u3002": true, "3.1": false,
	} {
		if endsSentence([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestWordEnd(t *testing.T) {
	long := strings.Repeat("\u00e9", 200)
	for text, want := range map[string]int{"": 0, "word": 0, " word": 0, "a word": 1, "a word ": 6, "a\nb c": 3, long: 400, "a " + long: 402, long[:399]: 398} {
		if got := wordEnd([]byte(text)); got != want {
			t.Errorf("%.20q of %d bytes: %d, want %d", text, len(text), got, want)
		}
	}
}
