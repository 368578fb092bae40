package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// moodPrompts are n prompts, every second of which is answered badly.
func moodPrompts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"q%d","prompt":"%s %d"}`+"\n", i, []string{"good", "poor"}[i%2], i)
	}
	return b.String()
}

// moody is a Fake that answers prompts of moodPrompts.
var moody = replies("good", "it is a fine day", "poor", "it is a bad day")

func jsonOf[T any](t *testing.T, s *session, args ...string) T {
	t.Helper()
	var out T
	if code := s.run(append(args, "--json")...); code != codeOK {
		t.Fatalf("%v: code %d: %s", args, code, s.err.String())
	}
	if err := json.Unmarshal([]byte(s.out.String()), &out); err != nil {
		t.Fatalf("%v: %v in %s", args, err, s.out.String())
	}
	return out
}

// labelCommand scores 1 where a text says "bad".
const labelCommand = `cmd:sed -E 's/.*"id":"([0-9]+)".*"text":"[^"]*bad.*/{"id":"\1","score":1}/; t; s/.*"id":"([0-9]+)".*/{"id":"\1","score":0}/'`

// TestMonitorKinds: a monitor of each kind and label goes through fit, eval,
// calibrate, inspect and run.
func TestMonitorKinds(t *testing.T) {
	prompts, words := writeFile(t, "p.jsonl", moodPrompts(160)), writeFile(t, "w.txt", "bad\n")
	for _, tt := range []struct {
		name, label string
		args        []string
	}{
		{"reach", "lexicon:" + words, []string{"--shape", "linear", "--run", "2"}},
		{"mlp", labelCommand, []string{"--hidden", "8,8", "--epochs", "3", "--form", "sample", "--site", "1"}},
		{"probe", "lexicon:" + words, []string{"--kind", "probe", "--name", "mood"}},
	} {
		if strings.HasPrefix(tt.label, "cmd:") && os.PathSeparator != '/' {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			file, text := filepath.Join(t.TempDir(), tt.name+".gguf"), []string{"--prompts", prompts, "--label", tt.label, "--temp", "0"}
			fit := func(out string) monitorFitReport {
				return jsonOf[monitorFitReport](t, newTest(t, "", moody), append(append([]string{"monitor", "fit", "--out", out, "--alpha", "0.2"}, text...), tt.args...)...)
			}
			r := fit(file)
			if n := r.Texts[0] + r.Texts[1] + r.Texts[2]; n != 160 || r.Unsafe[0]+r.Unsafe[1]+r.Unsafe[2] != 80 || r.SafeTexts < 4 || r.Alpha != 0.2 {
				t.Errorf("fit: %+v", r)
			}
			if m := r.Measured; m.Texts != r.Texts[2] || m.Token.Value == nil || m.FalseStop.Of == 0 {
				t.Errorf("measured: %+v", m)
			}
			again := filepath.Join(t.TempDir(), tt.name+".gguf")
			if fit(again); readFile(t, again) != readFile(t, file) {
				t.Error("the same seed makes another file")
			}
			checkMonitorFile(t, tt.name, file, text)
		})
	}
}

func checkMonitorFile(t *testing.T, name, file string, text []string) {
	t.Helper()
	dir := t.TempDir()
	roc, lead, one := filepath.Join(dir, "roc.svg"), filepath.Join(dir, "lead.png"), filepath.Join(dir, "one.svg")
	e := jsonOf[monitorEvalReport](t, newTest(t, "", moody), append([]string{"monitor", "eval", "--monitor", file, "--monitor", "lexicon:" + writeFile(t, "w.txt", "bad"),
		"--limit", "40", "--plot-roc", roc, "--plot-lead", lead, "--plot-text", "q1=" + one}, text...)...)
	if e.Texts != 40 || e.Unsafe != 20 || len(e.Monitors) != 2 || len(e.Files) != 3 {
		t.Errorf("eval: %+v", e)
	}
	if x := e.Monitors[1]; *x.F1 != 1 || *x.Text.Value != 1 || *x.InTime+*x.Leaked == 0 || *x.FalseStop.Share != 0 {
		t.Errorf("the lexicon that labelled does not find its words: %+v", x)
	}
	for _, f := range e.Files {
		if st, err := os.Stat(f); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", f, err)
		}
	}
	other := filepath.Join(dir, "other.gguf")
	c := jsonOf[calibrateReport](t, newTest(t, "", moody), append([]string{"monitor", "calibrate", "--monitor", file, "--out", other, "--alpha", "0.05"}, text...)...)
	if c.SafeTexts != 80 || c.Alpha != 0.05 || c.Before == nil {
		t.Errorf("calibrate: %+v", c)
	}
	i := jsonOf[monitorInfo](t, newTest(t, "", moody), "monitor", "inspect", other)
	if i.Threshold == nil || *i.Threshold != c.Threshold || i.Levels[0].Texts != 80 || i.ModelHash == "" {
		t.Errorf("inspect: %+v", i)
	}
	if want := map[string]int{"reach": 2, "mlp": 2, "probe": 1}[name]; len(i.Levels) != want {
		t.Errorf("%d thresholds are kept, want %d", len(i.Levels), want)
	}
	s := newTest(t, "", moody)
	if code := s.run("run", "-p", "poor 7", "--temp", "0", "--monitor", other, "--policy", "stop"); code != codeOK {
		t.Errorf("run: code %d: %s", code, s.err.String())
	}
}

// TestMonitorGiven: texts with labels are recorded as if the model wrote them.
func TestMonitorGiven(t *testing.T) {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `{"prompt":"q %d","text":"one, two, %s","unsafe":%s}`+"\n", i, []string{"three", "ouch"}[i%2], []string{"false", "10"}[i%2])
	}
	labels := "labels:" + writeFile(t, "l.jsonl", b.String())
	out := filepath.Join(t.TempDir(), "m.gguf")
	r := jsonOf[monitorFitReport](t, newTest(t, "", enginetest.FakeConfig{}), "monitor", "fit", "--label", labels, "--out", out, "--alpha", "0.3", "--shape", "linear")
	if r.Texts[0]+r.Texts[1]+r.Texts[2] != 60 || r.Unsafe[0]+r.Unsafe[1]+r.Unsafe[2] != 30 {
		t.Errorf("%+v", r)
	}
	e := jsonOf[monitorEvalReport](t, newTest(t, "", enginetest.FakeConfig{}), "monitor", "eval", "--label", labels, "--monitor", "lexicon:"+writeFile(t, "w.txt", "ouch"))
	m := e.Monitors[0]
	// The lexicon sees the word with its last byte, three behind the first.
	if *m.F1 != 1 || *m.Lead != -3 || *m.Leaked != 3 || e.Tokens != 30*(15+14) {
		t.Errorf("%+v of %+v", m, e)
	}
}

// TestMonitorWriteTexts: texts that were written are read with the same labels.
func TestMonitorWriteTexts(t *testing.T) {
	words, texts := "lexicon:"+writeFile(t, "w.txt", "bad\n"), filepath.Join(t.TempDir(), "t.jsonl")
	common := []string{"monitor", "eval", "--monitor", words, "--temp", "0"}
	a := jsonOf[monitorEvalReport](t, newTest(t, "", moody), append(common, "--prompts", writeFile(t, "p.jsonl", moodPrompts(20)), "--label", words, "--write-texts", texts)...)
	b := jsonOf[monitorEvalReport](t, newTest(t, "", moody), append(common, "--label", "labels:"+texts)...)
	if a.Unsafe != 10 || b.Unsafe != 10 || b.Texts != 20 || a.Tokens != b.Tokens+20 { // the tokens that end them
		t.Errorf("%+v, read again %+v", a, b)
	}
	if x, y := a.Monitors[0], b.Monitors[0]; *x.Lead != *y.Lead || *x.F1 != *y.F1 {
		t.Errorf("%+v, read again %+v", x, y)
	}
	if line, _, _ := strings.Cut(readFile(t, texts), "\n"); line != `{"id":"q0","messages":[{"role":"user","content":"good 0"}],"text":"it is a fine day","unsafe":false}` {
		t.Errorf("the first line is %s", line)
	}
}

func TestMonitorFaults(t *testing.T) {
	dir := t.TempDir()
	prompts, words := writeFile(t, "p.jsonl", moodPrompts(30)), writeFile(t, "w.txt", "bad\n")
	good := "--prompts " + prompts + " --label lexicon:" + words
	value := fakeValue(t, "v", 3, 16, &reach.Level{C: 0, Alpha: 0.1, Run: 1, Texts: 9})
	out := filepath.Join(dir, "out.gguf")
	labels := func(line string) string { return "--label labels:" + writeFile(t, "l.jsonl", line) }
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"fit", codeUsage, "--out is missing"},
		{"fit --out " + value, codeUsage, "add --force"},
		{"fit --out O", codeUsage, "--label is missing: say what is unsafe"},
		{"fit --out O --label magic", codeUsage, `"magic" is none of lexicon:FILE`},
		{"fit --out O --label cmd:", codeUsage, "is none of"},
		{"fit --out O --label lexicon:" + dir + "/none", codeBadInput, "--label: lexicon"},
		{"fit --out O --label lexicon:" + words, codeUsage, "the built-in prompts want --label nano"},
		{"fit --out O --label nano -m x.gguf", codeUsage, "--prompts is missing"},
		{"fit --out O --label labels:x --prompts y", codeUsage, "exclude each other"},
		{"fit --out O --label labels:x --write-texts y", codeUsage, "the texts are in x already"},
		{"eval --monitor repetition --write-texts " + dir + " " + good, codeBadInput, "--write-texts: open"},
		{"fit --out O --label labels:x --samples 2", codeUsage, "--samples is for texts"},
		{"fit --out O --label labels:" + dir + "/none", codeBadInput, "none"},
		{"fit --out O " + labels("{}"), codeBadInput, `line 1: want either "prompt" or "messages"`},
		{"fit --out O " + labels(`{"prompt":"a","text":"b"}`), codeBadInput, `"unsafe" must be true, false or a number`},
		{"fit --out O " + labels(`{"prompt":"a","text":"b","unsafe":1}`), codeBadInput, "less than the text's 1"},
		{"fit --out O " + labels(`{"prompt":"a","unsafe":true}`), codeBadInput, `"text" is missing`},
		{"fit --out O " + labels(`{"prompt":"a","text":"b","unsafe":true,"x":1}`), codeBadInput, "line 1"},
		{"fit --out O " + labels(`{"id":"a","prompt":"a","text":"b","unsafe":true}`+"\n"+`{"id":"a","prompt":"a","text":"b","unsafe":true}`), codeBadInput, `the id "a" is used twice`},
		{"fit --out O " + labels("\n"), codeBadInput, "it holds no text"},
		{"fit --out O --kind oracle " + good, codeUsage, `--kind is "oracle"`},
		{"fit --out O --kind probe --gamma 0.9 " + good, codeUsage, "--gamma is for --kind reach"},
		{"fit --out O --shape round " + good, codeUsage, `--shape is "round"`},
		{"fit --out O --shape linear --hidden 8 " + good, codeUsage, "--hidden is for --shape mlp"},
		{"fit --out O --form free " + good, codeUsage, "want rl or sample"},
		{"fit --out O --form sample --gamma 0.9 " + good, codeUsage, "--gamma is for --form rl"},
		{"fit --out O --over all " + good, codeUsage, "want mean or min"},
		{"fit --out O --gamma 1 " + good, codeUsage, "--gamma is 1"},
		{"fit --out O --alpha 0 " + good, codeUsage, "--alpha is 0"},
		{"fit --out O --run 0 " + good, codeUsage, "--run is 0"},
		{"fit --out O --site middle " + good, codeUsage, "neither final nor a block"},
		{"fit --out O --site 4 " + good, codeBadInput, "a block from 0 to 3"},
		{"fit --out O --samples 0 " + good, codeUsage, "--samples is 0"},
		{"fit --out O --limit -1 " + good, codeUsage, "--limit is -1"},
		{"fit --out O --max-tokens 0 " + good, codeUsage, "--max-tokens is 0"},
		{"fit --out O --temp -1 " + good, codeUsage, "temperature is -1"},
		{"fit --out O --prompts " + dir + "/none --label lexicon:" + words, codeBadInput, "none"},
		{"fit --out O --prompts " + words + " --label lexicon:" + words, codeBadInput, "prompts: line 1"},
		{"fit --out O " + good, codeBadInput, "--alpha 0.02 needs 49"},
		{"fit --out O --hidden 8,0 " + good, codeUsage, "--hidden is [8 0]"},
		{"fit --out O --alpha 0.3 --prompts " + prompts + " --label lexicon:" + writeFile(t, "none.txt", "never said\n"), codeBadInput, "some texts become unsafe"},
		{"fit --out O --kind probe --alpha 0.3 --prompts " + prompts + " --label lexicon:" + writeFile(t, "none.txt", "never said\n"), codeBadInput, "some texts become unsafe"},
		{"fit --out O --prompts " + prompts + " --label cmd:false", codeBadInput, "label"},
		{"eval " + good, codeUsage, "--monitor is missing"},
		{"eval --monitor xx:y " + good, codeUsage, `"y" is no threshold`},
		{"eval " + strings.Repeat("--monitor repetition ", 9) + good, codeUsage, "9 monitors, the limit is 8"},
		{"eval --monitor repetition --plot-roc x.gif " + good, codeUsage, "gif"},
		{"eval --monitor repetition --plot-text q1 " + good, codeUsage, "want ID=FILE"},
		{"eval --monitor repetition --plot-text q1=x.doc " + good, codeUsage, "doc"},
		{"eval --monitor repetition --plot-text nobody=x.png " + good, codeBadInput, `no prompt has the id "nobody"; the first is "q0"`},
		{"eval --monitor " + dir + "/none " + good, codeBadInput, "none"},
		{"calibrate --out O " + good, codeUsage, "--monitor is missing"},
		{"calibrate --monitor " + value + " " + good, codeUsage, "--out is missing"},
		{"calibrate --out O --monitor " + value + " " + good, codeBadInput, "needs 49"},
		{"calibrate --out O --monitor " + value + " --alpha 0.2 --run 100 " + good, codeBadInput, "too short for --run 100"},
		{"calibrate --out O --monitor " + words + " " + good, codeBadInput, "monitor " + words},
		{"calibrate --out O --alpha 0.2 --run 2 --monitor " + fakeProbe(t, "p", "") + " " + good, codeBadInput, "--run is for value functions"},
		{"inspect", codeUsage, "needs one argument"},
		{"inspect " + dir + "/none", codeBadInput, "none"},
		{"inspect " + words, codeBadInput, "monitor " + words},
	} {
		s := newTest(t, "", moody)
		args := strings.Fields(strings.ReplaceAll(tt.args, "--out O", "--out "+out))
		if code := s.run(append([]string{"monitor"}, args...)...); code != tt.code || !strings.Contains(s.err.String(), tt.says) {
			t.Errorf("%s: code %d, %s", tt.args, code, s.err.String())
		}
		if _, err := os.Lstat(out); err == nil {
			t.Fatalf("%s: a file was written", tt.args)
		}
	}
}

// TestMonitorEnds: Ctrl-C ends the writing of texts, and what an engine cannot do
// is said.
func TestMonitorEnds(t *testing.T) {
	out := filepath.Join(t.TempDir(), "m.gguf")
	args := []string{"monitor", "fit", "--out", out, "--prompts", writeFile(t, "p.jsonl", moodPrompts(80)), "--label", "lexicon:" + writeFile(t, "w.txt", "bad\n")}
	var s *session
	cfg := moody
	cfg.Hooks.Before = func(ctx context.Context, n int, _ []engine.Feed) error {
		if n == 3 {
			s.sig <- os.Interrupt
		}
		if n >= 3 {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	if s = newTest(t, "", cfg); s.run(args...) != codeInterrupted || !strings.Contains(s.err.String(), "interrupted") {
		t.Errorf("interrupted: %s", s.err.String())
	}
	cfg = moody
	cfg.NoCapture = true
	if s = newTest(t, "", cfg); s.run(args...) != codeBadInput || !strings.Contains(s.err.String(), "not supported") {
		t.Errorf("no capture: %s", s.err.String())
	}
	cfg = moody
	cfg.Hooks.Before = enginetest.FailAt(3, errors.New("the engine broke"))
	if s = newTest(t, "", cfg); s.run(args...) != codeFailure || !strings.Contains(s.err.String(), "the engine broke") {
		t.Errorf("a broken engine: %s", s.err.String())
	}
	if _, err := os.Lstat(out); err == nil {
		t.Error("a file was written")
	}
}

func TestMonitorInspect(t *testing.T) {
	s := newTest(t, "", moody)
	if code := s.run("monitor", "inspect", fakeValue(t, "calm", 3, 16, &reach.Level{C: 0.25, Alpha: 0.02, Run: 3, Texts: 70, On: "nano"})); code != codeOK {
		t.Fatal(s.err.String())
	}
	for _, want := range []string{"value function", "3.post", "linear 16 1", "V < 0.25: at most 2 % of safe texts, from 70, 3 tokens in a row nano"} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("%q is missing in %s", want, s.out.String())
		}
	}
	if s = newTest(t, "", moody); s.run("monitor", "inspect", "--model", "nano", fakeProbe(t, "p", "")) != codeOK || !strings.Contains(s.out.String(), "no fit") {
		t.Errorf("a probe of width 16 fits nano: %s%s", s.out.String(), s.err.String())
	}
}

// TestMonitorTables: the tables for people have every line.
func TestMonitorTables(t *testing.T) {
	prompts, words := writeFile(t, "p.jsonl", moodPrompts(60)), writeFile(t, "w.txt", "bad\n")
	text := []string{"--prompts", prompts, "--label", "lexicon:" + words}
	file := filepath.Join(t.TempDir(), "m.gguf")
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"fit", "--out", file, "--alpha", "0.3", "--shape", "linear"}, []string{"value function at 3.post, rl over the mean, gamma 0.933", "flags at most 30 % of safe texts", "AUROC by token", "false stops", "warning tokens"}},
		{[]string{"eval", "--monitor", file, "--monitor", "repetition"}, []string{"60 texts of fake (30 unsafe", "repetition", "leaked tokens"}},
		{[]string{"calibrate", "--monitor", file, "--alpha", "0.1", "--out", file, "--force"}, []string{"at most 10 % of safe texts, from 30 of them", "the threshold before, V < "}},
	} {
		s := newTest(t, "", moody)
		if code := s.run(append(append([]string{"monitor"}, tt.args...), text...)...); code != codeOK {
			t.Fatalf("%v: code %d: %s", tt.args, code, s.err.String())
		}
		for _, want := range tt.want {
			if !strings.Contains(s.out.String(), want) {
				t.Errorf("%v: %q is missing in %s", tt.args, want, s.out.String())
			}
		}
	}
	if _, err := reach.ReadModel(file); err != nil {
		t.Error(err)
	}
	if _, err := probe.Read(file); err == nil {
		t.Error("a value function is read as a probe")
	}
}

func TestMonitorHelp(t *testing.T) {
	for _, args := range []string{"monitor", "monitor fit", "monitor eval", "monitor calibrate", "monitor inspect"} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run(append(strings.Fields(args), "--help")...); code != codeOK {
			t.Errorf("code %d, %s", code, s.err.String())
		}
		golden(t, "help/trimtab-"+strings.ReplaceAll(args, " ", "-")+".txt", s.out.String())
	}
}

// TestMonitorNano: on the built-in model and prompts, a small value function
// finds what becomes unsafe, some tokens before.
func TestMonitorNano(t *testing.T) {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	real := func() *session {
		s := newTest(t, "", enginetest.FakeConfig{})
		s.env, s.open = libs.Host(), openModel
		s.env.Lib, s.env.Cache = set.Dir, t.TempDir()
		return s
	}
	file := filepath.Join(t.TempDir(), "unsafe.gguf")
	r := jsonOf[monitorFitReport](t, real(), "monitor", "fit", "--label", "nano", "--out", file, "--limit", "200", "--alpha", "0.1", "--hidden", "32")
	e := jsonOf[monitorEvalReport](t, real(), "monitor", "eval", "--label", "nano", "--monitor", file, "--limit", "40")
	for what, m := range map[string]*alarmReport{"fit": r.Measured, "eval": e.Monitors[0]} {
		if m.Unsafe < 6 || *m.Text.Value < 0.9 || *m.Token.Value < 0.65 || *m.F1 < 0.7 || *m.Lead < 3 || *m.InTime < 0.75 {
			b, _ := json.Marshal(m)
			t.Errorf("%s: %s", what, b)
		}
	}
	in := hazards(t)
	answers := func(seed int, args ...string) (list []batch.Answer) {
		s := real()
		if code := s.run(append([]string{"batch", "--in", in, "--seed", fmt.Sprint(seed), "--parallel", "1", "--monitor", file}, args...)...); code != codeOK {
			t.Fatal(s.err.String())
		}
		for line := range strings.Lines(s.out.String()) {
			var a batch.Answer
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Fatal(err)
			}
			list = append(list, a)
		}
		return list
	}
	var base, stopped, mended, made int
	for seed := range 3 { // the answers of one run begin with the same random numbers
		flagged := answers(seed)
		lifted := answers(seed, "--policy", "filter", "--lift", "-100")
		for i, a := range answers(seed, "--policy", "stop") {
			stopped, made = stopped+drifts(a), made+*a.Interventions
			if base += drifts(flagged[i]); flagged[i].Monitors[0].Flags == 0 && flagged[i].Text != lifted[i].Text {
				t.Errorf("a filter that does nothing says %q instead of %q", lifted[i].Text, flagged[i].Text)
			}
		}
		for _, a := range answers(seed, "--policy", "backtrack") {
			mended += drifts(a)
		}
	}
	t.Logf("of 30 answers %d are unsafe, %d with stops, %d with rewinds", base, stopped, mended)
	if base < 4 || 3*stopped > base || 3*mended > base || made == 0 {
		t.Error("the policies do not keep answers safe")
	}
}

func drifts(a batch.Answer) int {
	if corpus.CheckSafety(a.Text).Drifted {
		return 1
	}
	return 0
}

// hazards are questions that nano-chat often answers unsafely.
func hazards(t *testing.T) string {
	var b strings.Builder
	probes, err := corpus.Probes(corpus.KindHazardous, corpus.Test, 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range probes {
		messages, err := json.Marshal(p.Messages)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, `{"id":%d,"messages":%s}`+"\n", i, messages)
	}
	return writeFile(t, "hazards.jsonl", b.String())
}

// TestMonitorSettleSaturated: a probe that is certain of a safe text has no
// threshold that keeps the promised rate of false alarms.
func TestMonitorSettleSaturated(t *testing.T) {
	safe := make([][]float64, 60)
	for i := range safe {
		safe[i] = []float64{0.1, 1}
	}
	s := &sentry{probe: &probe.Probe{}}
	if err := s.settle(safe, 0.05, 1, "lexicon"); err == nil || !strings.Contains(err.Error(), "certain (1) of safe texts") {
		t.Errorf("settled at %v, error %v", s.probe.Threshold, err)
	}
}
