package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// fakeValue is a value function for the Fake: the first number of the residual
// at a block, and a level if it is not nil.
func fakeValue(t *testing.T, name string, layer, width int, level *reach.Level) string {
	t.Helper()
	w := make([]float32, width)
	w[0] = 1
	m := &reach.Model{Name: name, Site: steer.Site{Layer: layer}, Aim: reach.Aim{Gamma: 0.9},
		Value: steer.Value{Kind: steer.Linear, Layers: []steer.Dense{{In: width, Out: 1, Weight: w, Bias: []float32{0}}}}}
	if level != nil {
		m.Levels = []reach.Level{*level}
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := m.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func fakeProbe(t *testing.T, name, model string) string {
	t.Helper()
	w := make([]float32, 16)
	w[0] = 1
	p := &probe.Probe{Name: name, Site: steer.Site{Layer: 2}, Threshold: 0.5, ModelHash: model, Method: "logistic",
		Value: &steer.Value{Kind: steer.Linear, Layers: []steer.Dense{{In: 16, Out: 1, Weight: w, Bias: []float32{0}}}}}
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := p.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWatchPolicies(t *testing.T) {
	words := writeFile(t, "words.txt", "bad\n")
	for _, tt := range []struct {
		name, args string
		out        string // the whole answer, if not empty
		not        string // what the answer must not hold
		says       string
	}{
		{"flag", "", "all was bad today\n", "", "token 10 \"d\": lexicon"},
		{"stop", "--policy stop --hold-back 3", "all was\n", "bad", "stopped: lexicon"},
		{"stop holds eight", "--policy stop", "al\n", "bad", "stopped"},
		{"refusal", "--policy stop --hold-back 4 --refusal sorry", "all wasorry\n", "bad", "all 0 interventions are spent"},
		{"backtrack", "--policy backtrack", "", "bad", "intervention 1 of 3"},
		{"no tries", "--policy backtrack --max-interventions 0 --refusal no --hold-back 3", "all wasno\n", "bad", "all 0 interventions"},
		{"guided", "--policy backtrack --guidance be-good --rewind-to 4", "", "bad", "4 taken back"},
	} {
		s := newTest(t, "", answers("all was bad today"))
		args := append([]string{"run", "-p", "hi", "--temp", "0", "--max-tokens", "24", "--monitor", "lexicon:" + words}, strings.Fields(tt.args)...)
		if code := s.run(args...); code != codeOK {
			t.Errorf("%s: code %d: %s", tt.name, code, s.err.String())
			continue
		}
		out := s.out.String()
		if tt.out != "" && out != tt.out || tt.not != "" && strings.Contains(out, tt.not) || !strings.Contains(s.err.String(), tt.says) {
			t.Errorf("%s: %q, %q", tt.name, out, s.err.String())
		}
	}
}

// TestWatchFilter: the filter leaves an answer alone while the value is above
// the level, and lifts the state where it is not.
func TestWatchFilter(t *testing.T) {
	plainly := newTest(t, "", enginetest.FakeConfig{})
	if code := plainly.run("run", "-p", "hi", "--temp", "0", "--max-tokens", "16"); code != codeOK {
		t.Fatal(plainly.err.String())
	}
	value := fakeValue(t, "v", 3, 16, &reach.Level{C: -100, Alpha: 0.1, Run: 1, Texts: 20})
	for _, tt := range []struct {
		args string
		same bool
	}{{"--lift -100", true}, {"--lift 1.5", false}, {"--lift 1.5 --radius 0.000001", true}} {
		s := newTest(t, "", enginetest.FakeConfig{})
		args := []string{"run", "-p", "hi", "--temp", "0", "--max-tokens", "16", "--monitor", value, "--policy", "filter"}
		if code := s.run(append(args, strings.Fields(tt.args)...)...); code != codeOK {
			t.Errorf("%s: code %d: %s", tt.args, code, s.err.String())
		} else if !strings.Contains(s.err.String(), "note: v is of form rl") || !strings.Contains(s.err.String(), "sees them lifted") {
			t.Errorf("%s: no hints in %q", tt.args, s.err.String())
		} else if got := s.out.String() == plainly.out.String(); got != tt.same {
			t.Errorf("%s: %q, without the filter %q", tt.args, s.out.String(), plainly.out.String())
		}
	}
}

// TestWatchRecorded: what policies did is in the audit log, and runs again.
func TestWatchRecorded(t *testing.T) {
	dir := t.TempDir()
	audits, steps := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "t.jsonl")
	for _, policy := range []string{"stop --refusal sorry", "backtrack --guidance nice", "flag"} {
		s := newTest(t, "", answers("all was bad today"))
		args := []string{"run", "-p", "hi", "--max-tokens", "24", "--seed", "4", "--monitor", "lexicon:" + writeFile(t, "w.txt", "bad\n"), "--audit", audits, "--trace", steps, "--policy"}
		if code := s.run(append(args, strings.Fields(policy)...)...); code != codeOK {
			t.Fatalf("%s: %s", policy, s.err.String())
		}
	}
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("trace", "replay", steps); code != codeOK || !strings.HasPrefix(s.out.String(), "3 sessions, ") {
		t.Errorf("replay: code %d, %s%s", code, s.out.String(), s.err.String())
	}
	if s = newTest(t, "", enginetest.FakeConfig{}); s.run("trace", "show", audits) != codeOK || !strings.Contains(s.out.String(), `threw away "`) || !strings.Contains(s.out.String(), `guidance "nice"`) {
		t.Errorf("show: %s%s", s.out.String(), s.err.String())
	}
}

// TestWatchFilterWatched: the value function of the last site lifts, the others
// watch and take back.
func TestWatchFilterWatched(t *testing.T) {
	level := &reach.Level{C: -100, Alpha: 0.1, Run: 1, Texts: 20}
	lift, watch := fakeValue(t, "lift", 3, 16, level), fakeValue(t, "watch", 1, 16, level)
	s := newTest(t, "", answers("some words"))
	a := jsonOf[batch.Answer](t, s, "run", "-p", "hi", "--temp", "0", "--max-tokens", "4", "--monitor", lift, "--monitor", watch+":100", "--policy", "filter", "--lift", "-100")
	if *a.Interventions == 0 || a.Monitors[0].Flags != 0 || a.Monitors[1].Flags == 0 {
		t.Errorf("%+v", a)
	}
	if strings.Contains(s.err.String(), "sees them lifted") || !strings.Contains(s.err.String(), "note: lift is of form rl") {
		t.Errorf("hints: %s", s.err.String())
	}
}

func TestWatchAnswers(t *testing.T) {
	words, value := writeFile(t, "words.txt", "bad\n"), fakeValue(t, "v", 3, 16, nil)
	in := writeFile(t, "in.jsonl", `{"id":"x","messages":[{"role":"user","content":"hi"}]}`+"\n")
	for _, args := range [][]string{{"run", "-p", "hi", "--json"}, {"batch", "--in", in}} {
		s := newTest(t, "", answers("a bad day"))
		args = append(args, "--temp", "0", "--monitor", "lexicon:"+words, "--monitor", "lexicon:"+words, "--monitor", value+":-50",
			"--monitor", "repetition", "--monitor", "entropy:measure=margin,below=0.5,run=3", "--policy", "stop", "--hold-back", "2", "--scores")
		if code := s.run(args...); code != codeOK {
			t.Fatal(s.err.String())
		}
		var a batch.Answer
		if err := json.Unmarshal([]byte(s.out.String()), &a); err != nil {
			t.Fatal(err)
		}
		if a.Text != "a " || a.FinishReason != "content_filter" || a.Interventions == nil || *a.Interventions != 1 || len(a.Monitors) != 5 {
			t.Fatalf("%s", s.out.String())
		}
		m := a.Monitors[0]
		if m.Name != "lexicon" || m.Flags != 1 || *m.First != 4 || *m.Highest != 1 || a.Monitors[1].Name != "lexicon-2" || a.Monitors[2].Name != "v" || a.Monitors[2].Flags != 0 {
			t.Errorf("%s", s.out.String())
		}
		if len(m.Scores) == 0 || m.Scores[0] == nil {
			t.Errorf("no scores in %s", s.out.String())
		}
	}
	s := newTest(t, "", answers("a day"))
	if code := s.run("run", "-p", "hi", "--json"); code != codeOK || strings.Contains(s.out.String(), "monitors") || strings.Contains(s.out.String(), "interventions") {
		t.Errorf("unwatched: %s", s.out.String())
	}
}

// TestWatchScores: a background where the terminal allows it, a list otherwise.
func TestWatchScores(t *testing.T) {
	words := writeFile(t, "words.txt", "bad\n")
	for _, tt := range []struct {
		tty, colors bool
		args        string
		out, says   string
	}{
		{true, true, "", "\x1b[48;5;22;38;5;15ma\x1b[0m\n\x1b[48;5;22;38;5;15m \x1b[0m\x1b[48;5;22;38;5;15mb\x1b[0m\x1b[48;5;22;38;5;15ma\x1b[0m\x1b[48;5;160;38;5;15md\x1b[0m\n", "token 5"},
		{true, false, "", "a\n bad\n", "token 5"},
		{false, true, "", "a\n bad\n", "token 5"},
		{false, false, "--scores", "a\n bad\n", "5      \"d\"   1  !"},
	} {
		s := newTest(t, "", answers("a\n bad"))
		s.outTTY, s.colors = tt.tty, tt.colors
		code := s.run(append([]string{"run", "-p", "hi", "--temp", "0", "--monitor", "lexicon:" + words}, strings.Fields(tt.args)...)...)
		if code != codeOK || s.out.String() != tt.out || !strings.Contains(s.err.String(), tt.says) {
			t.Errorf("%+v: code %d, %q, %s", tt, code, s.out.String(), s.err.String())
		}
	}
}

// TestPaintKeepsText: whatever the tokens, without the colours the painted text
// is the text.
func TestPaintKeepsText(t *testing.T) {
	b := &board{rows: []scored{{piece: []byte("a")}, {piece: []byte("\xc3"), heat: 0.5}, {piece: []byte("\xa4b\n\nc"), heat: 1}, {piece: []byte("dd")}}}
	got := string(b.paint([]byte("aäb\n\nc"), make(tokens, 3))) + string(b.paint([]byte("d"), make(tokens, 3)))
	for _, code := range []string{"\x1b[48;5;22;38;5;15m", "\x1b[48;5;136;38;5;15m", "\x1b[48;5;160;38;5;15m", "\x1b[0m"} {
		if !strings.Contains(got, code) {
			t.Errorf("%q is not in %q", code, got)
		}
		got = strings.ReplaceAll(got, code, "")
	}
	if got != "aäb\n\ncd" {
		t.Errorf("the text is %q", got)
	}
}

func TestWatchFaults(t *testing.T) {
	dir := t.TempDir()
	words := writeFile(t, "words.txt", "bad\n")
	noLevel, wide := fakeValue(t, "none", 3, 16, nil), fakeValue(t, "wide", 3, 8, &reach.Level{Alpha: 0.1, Run: 1, Texts: 9})
	deep := fakeValue(t, "deep", 9, 16, &reach.Level{Alpha: 0.1, Run: 1, Texts: 9})
	calm, other := fakeProbe(t, "calm", ""), fakeProbe(t, "other", "somewhere else")
	cut := filepath.Join(dir, "cut.gguf")
	if err := os.WriteFile(cut, []byte(readFile(t, calm))[:200], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"--monitor=", codeUsage, "is empty"},
		{"--policy stop", codeUsage, "--policy needs --monitor"},
		{"--scores", codeUsage, "--scores needs --monitor"},
		{"--hold-back 3", codeUsage, "--hold-back needs --monitor"},
		{"--monitor repetition --policy pray", codeUsage, `--policy is "pray"`},
		{"--monitor repetition --guidance x", codeUsage, "--guidance is for --policy backtrack"},
		{"--monitor repetition --max-interventions 2 --policy stop", codeUsage, "not for stop"},
		{"--monitor repetition --refusal x", codeUsage, "--refusal does nothing"},
		{"--monitor repetition --policy stop --hold-back -1", codeUsage, "--hold-back is -1"},
		{"--monitor repetition --policy filter --hold-back 0", codeUsage, "at least 1"},
		{"--monitor repetition --policy backtrack --max-interventions -1", codeUsage, "--max-interventions is -1"},
		{"--monitor repetition --policy backtrack --rewind-to there", codeUsage, `"there" is not onset`},
		{"--monitor repetition --policy stop --lift 0", codeUsage, "--lift is for --policy filter"},
		{"--monitor repetition --policy filter --lift NaN", codeUsage, "--lift is NaN"},
		{"--monitor repetition --policy filter --radius 0", codeUsage, "--radius is 0"},
		{"--monitor lexicon:", codeUsage, "lexicon wants a file"},
		{"--monitor x.gguf:high", codeUsage, `"high" is no threshold`},
		{"--monitor x.gguf:NaN", codeUsage, `"NaN" is no threshold`},
		{"--monitor entropy:above=x", codeUsage, "above=x"},
		{"--monitor entropy:above=-1", codeUsage, "threshold"},
		{"--monitor entropy:measure=joy", codeUsage, "want surprise, entropy or margin"},
		{"--monitor entropy:volume=3", codeUsage, "want measure=, above="},
		{"--monitor entropy:smooth=median:3", codeUsage, "smooth"},
		{"--monitor " + dir + "/none.gguf", codeBadInput, "without a file there are lexicon:FILE"},
		{"--monitor lexicon:" + dir + "/none", codeBadInput, "none"},
		{"--monitor lexicon:" + calm, codeBadInput, "monitor lexicon:"},
		{"--monitor " + words, codeBadInput, "monitor " + words},
		{"--monitor " + dir, codeBadInput, "monitor " + dir},
		{"--monitor " + cut, codeBadInput, "monitor " + cut},
		{"--monitor " + noLevel, codeBadInput, "it has no threshold"},
		{"--monitor " + wide, codeBadInput, "rows of 8, the model has 16"},
		{"--monitor " + deep, codeBadInput, "layers 0 to 3"},
		{"--monitor " + calm + ":1.5", codeBadInput, "not between 0 and 1"},
		{"--monitor " + other, codeBadInput, "use --any-model"},
		{"--monitor " + other + " --any-model", codeOK, ""},
		{"--monitor " + calm + " --monitor " + noLevel + ":-9", codeOK, ""},
		{"--monitor " + calm + " --policy filter", codeBadInput, "climbs a value function, and none is among the monitors (calm)"},
		{"--monitor repetition --policy stop --refusal " + strings.Repeat("x", 2000), codeBadInput, "--refusal has 2000 tokens"},
	} {
		s := newTest(t, "", answers("ok"))
		if code := s.run(append([]string{"run", "-p", "hi"}, strings.Fields(tt.args)...)...); code != tt.code || !strings.Contains(s.err.String(), tt.says) {
			t.Errorf("%s: code %d, %s", tt.args, code, s.err.String())
		}
	}
}

func TestParseSentry(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a:0.5")
	if err := os.WriteFile(odd, nil, 0o644); err != nil && os.PathSeparator == '/' {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text, kind, file string
		threshold        float64
	}{
		{"a.gguf", "file", "a.gguf", 0}, {"a.gguf:0.25", "file", "a.gguf", 0.25}, {"a.gguf:-1", "file", "a.gguf", -1},
		{`C:\a.gguf`, "file", `C:\a.gguf`, 0}, {`C:\a.gguf:2`, "file", `C:\a.gguf`, 2}, {odd, "file", odd, 0},
		{"lexicon:a:b", "lexicon", "a:b", 0}, {"repetition", "repetition", "", 0}, {"entropy", "entropy", "", 0},
		{"entropy:above=2,smooth=mean:8", "entropy", "", 2},
	} {
		s, err := parseSentry(tt.text)
		if err != nil || s.kind != tt.kind || s.file != tt.file || (s.threshold != nil) != (tt.threshold != 0) || s.threshold != nil && *s.threshold != tt.threshold {
			t.Errorf("%s: %+v, %v", tt.text, s, err)
		}
	}
}
