package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/checker"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/sweep"
	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

func needShell(t *testing.T) {
	t.Helper()
	if goruntime.GOOS == "windows" {
		t.Skip("the commands of this test are for sh")
	}
}

// sweepJSON runs a sweep on the Fake.
func sweepJSON(t *testing.T, cfg enginetest.FakeConfig, args ...string) (r sweepReport) {
	t.Helper()
	s := newTest(t, "", cfg)
	if code := s.run(append([]string{"steer", "sweep", "--out", "json"}, args...)...); code != codeOK {
		t.Fatalf("code %d: %s", code, s.err.String())
	}
	if err := json.Unmarshal([]byte(s.out.String()), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSteerSweep prints the table of a scripted model, and draws it.
func TestSteerSweep(t *testing.T) {
	needShell(t)
	v, pairs := vectorFor(t, ""), writeFile(t, "pairs.jsonl", manyPairs(40))
	for _, format := range []string{"png", "svg"} {
		chart := filepath.Join(t.TempDir(), "chart."+format)
		s := newTest(t, "", replies("question", "yes yes yes yes yes yes yes yes"))
		if code := s.run("steer", "sweep", "--vector", "v="+v, "--pairs", pairs, "--doses", "0,20,60", "--max-tokens", "24", "--answers", "3", "--seeds", "2", "--plot", chart,
			"--check", `while read -r l; do id=${l#*\"id\":\"}; echo "{\"id\":\"${id%%\"*}\",\"score\":0.5,\"label\":\"fine\"}"; done`); code != codeOK {
			t.Fatalf("code %d: %s", code, s.err.String())
		}
		golden(t, "sweep.txt", s.out.String())
		if b, err := os.ReadFile(chart); err != nil || len(b) < 2000 {
			t.Errorf("%s: %d bytes, %v", chart, len(b), err)
		}
	}
}

// TestSteerSweepBase: the unsteered model moves nowhere, and it is what dose 0
// is.
func TestSteerSweepBase(t *testing.T) {
	v, pairs := "v="+vectorFor(t, ""), writeFile(t, "pairs.jsonl", manyPairs(40))
	args := []string{"--vector", v, "--pairs", pairs, "--answers", "0"}
	r := sweepJSON(t, enginetest.FakeConfig{}, append(args, "--doses", "-5,0,5")...)
	if len(r.Rows) != 3 || r.Rows[1].Expression != "v:-5" || r.Rows[2].Expression != "v:5" || r.Pairs < 4 || r.Neutral == 0 || r.Expression != "v" {
		t.Fatalf("%+v", r)
	}
	zero := sweep.Estimate{}
	base := &r.Rows[0]
	if *base.Effect != zero || *base.KL != zero || base.Expression != "" || base.Score != nil || base.Loops != nil {
		t.Errorf("unsteered: %+v", base)
	}
	for _, row := range r.Rows[1:] {
		if !(row.KL.Mean > 0 && row.KL.Low <= row.KL.Mean && row.KL.Mean <= row.KL.High) || row.Margin.Mean == base.Margin.Mean || row.Perplexity.Mean == base.Perplexity.Mean {
			t.Errorf("%s: %+v", row.Expression, row)
		}
	}
	// A second term with a dose of its own: dose 0 is then another model.
	other := sweepJSON(t, enginetest.FakeConfig{}, append(args, "--vector", "w="+vectorFor(t, ""), "--steer", "v + w:5", "--doses", "0")...)
	if len(other.Rows) != 2 || other.Rows[1].Expression != "v:0 + w:5" || *other.Rows[1].Margin != *r.Rows[2].Margin || *other.Rows[0].Margin != *base.Margin {
		t.Errorf("%+v", other.Rows)
	}
}

// TestSteerSweepLayers: blocks one at a time; the vector's own dose decides what
// is tried; a text of one's own is what perplexity is of.
func TestSteerSweepLayers(t *testing.T) {
	held := writeFile(t, "held.txt", strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20))
	pairs := writeFile(t, "pairs.jsonl", manyPairs(8))
	r := sweepJSON(t, enginetest.FakeConfig{}, "--vector", "v="+vectorFor(t, ""), "--pairs", pairs, "--split", "all", "--layers", "1-1", "--text", held, "--answers", "2", "--seeds", "1", "--max-tokens", "8")
	if len(r.Rows) != 8 || r.Pairs != 8 || r.Prompts != 2 || r.Seeds != 1 || !strings.HasSuffix(r.PerplexityOf, "held.txt") {
		t.Fatalf("%+v", r)
	}
	for i, row := range r.Rows[1:] {
		if want := []float64{12.5, 25, 37.5, 50, 75, 100, 150}[i]; row.Dose != want || row.Layer == nil || *row.Layer != 1 || row.Expression != fmt.Sprintf("v:%v@1", want) || row.Distinct == nil {
			t.Errorf("row %d: %+v", i, row)
		}
	}
}

// TestSteerSweepNano: the built-in judges, on a model that knows the answers.
func TestSteerSweepNano(t *testing.T) {
	set, err := chat.SetNamed("arithmetic-careful")
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	var script []string
	records := set.Records(chat.Test, 1, 4)
	if err := chat.WriteRecords(&file, records); err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		script = append(script, r.Messages[0].Content, []string{r.Chosen, r.Rejected}[i%2])
	}
	prompts := writeFile(t, "p.jsonl", file.String())
	r := sweepJSON(t, replies(script...), "--vector", "v="+vectorFor(t, ""), "--prompts", prompts, "--doses", "1e-6", "--check", checker.NanoShown, "--max-tokens", "200")
	for _, row := range r.Rows {
		if row.Score.Mean != 0.5 || row.Labels["careful"] != 6 || row.Labels["hasty"] != 6 || row.Margin != nil || row.KL == nil {
			t.Errorf("%+v %+v", row, row.Score)
		}
	}
}

func TestSteerSweepFaults(t *testing.T) {
	needShell(t)
	v, dir := "v="+vectorFor(t, ""), t.TempDir()
	pairs, few := writeFile(t, "pairs.jsonl", manyPairs(40)), writeFile(t, "few.jsonl", manyPairs(3))
	good := []string{"--vector", v, "--pairs", pairs, "--doses", "1", "--answers", "1", "--seeds", "1", "--max-tokens", "4"}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"nothing", nil, codeUsage, "--vector is missing"},
		{"no measure", []string{"--vector", v}, codeUsage, "give --pairs, or --prompts"},
		{"split", append(good, "--split", "half"), codeUsage, `--split is "half"`},
		{"layers", append(good, "--layers", "9-1"), codeUsage, "--layers: "},
		{"dose", append(good, "--doses", "NaN"), codeUsage, "--doses: NaN"},
		{"answers", append(good, "--answers", "-1"), codeUsage, "--answers is -1"},
		{"seeds", append(good, "--seeds", "0"), codeUsage, "--seeds is 0"},
		{"temperature", append(good, "--temp", "-1"), codeUsage, "--temp is -1"},
		{"tokens", append(good, "--max-tokens", "0"), codeUsage, "--max-tokens is 0"},
		{"timeout", append(good, "--check-timeout", "0s"), codeUsage, "--check-timeout is 0s"},
		{"out", append(good, "--out", "xml"), codeUsage, `--out is "xml"`},
		{"plot", append(good, "--plot", "x.pdf"), codeUsage, "charts are written as .png or .svg"},
		{"check without answers", append(good, "--check", "cat", "--answers", "0"), codeUsage, "nothing to judge"},
		{"unknown vector", append(good, "--steer", "w"), codeUsage, "there is no --vector w=FILE"},
		{"fixed dose", append(good, "--steer", "v:1"), codeBadInput, "every term names its dose"},
		{"blocks twice", append(good, "--steer", "v@1", "--layers", "1"), codeBadInput, "v names its blocks"},
		{"no such block", append(good, "--layers", "2"), codeBadInput, "no direction for block 2, only for [1]"},
		{"only dose 0", []string{"--vector", v, "--pairs", pairs, "--doses", "0"}, codeBadInput, "no dose but 0"},
		{"no vector file", []string{"--vector", "v=" + filepath.Join(dir, "none"), "--pairs", pairs}, codeBadInput, "vector v: "},
		{"no pairs file", []string{"--vector", v, "--pairs", filepath.Join(dir, "none")}, codeBadInput, "check the path"},
		{"few pairs", []string{"--vector", v, "--pairs", few}, codeBadInput, "or measure on every pair with --split all"},
		{"bad prompts", []string{"--vector", v, "--prompts", writeFile(t, "bad.jsonl", `{"prompt":""}`)}, codeBadInput, `line 1: "prompt" or "messages" is missing`},
		{"empty text", append(good, "--text", writeFile(t, "e.txt", "")), codeBadInput, "the text is empty"},
		{"wrong judge", append(good, "--check", "nano"), codeBadInput, "judges prompts of `trimtab data export`"},
		{"judge fails", append(good, "--check", "echo oh no >&2; exit 3"), codeFailure, "exit status 3 after 0 of 1 verdicts\nits error stream: oh no"},
		{"judge hangs", append(good, "--check", "sleep 60", "--check-timeout", "50ms"), codeFailure, "not done within 50ms"},
		{"judge talks", append(good, "--check", "echo hello"), codeFailure, "line 1 of its output is not a JSON object"},
		{"no folder for the chart", append(good, "--plot", filepath.Join(dir, "none", "x.svg")), codeFailure, "x.svg"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTest(t, "", enginetest.FakeConfig{})
			code := s.run(append([]string{"steer", "sweep"}, c.args...)...)
			if code != c.code || !strings.Contains(s.err.String(), c.want) {
				t.Errorf("code %d, %q; want %d and %q", code, s.err.String(), c.code, c.want)
			}
		})
	}
}

// TestSteerMeasureInterrupt: Ctrl-C ends both commands, also while a judge is
// at work.
func TestSteerMeasureInterrupt(t *testing.T) {
	needShell(t)
	v, pairs := "v="+vectorFor(t, ""), writeFile(t, "pairs.jsonl", manyPairs(40))
	for _, args := range [][]string{
		{"sweep", "--vector", v, "--pairs", pairs, "--doses", "1"},
		{"compare", "--vector", v, "-p", "hi"},
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		open := s.open
		s.open = func(ctx context.Context, o openOptions) (engine.Engine, error) {
			s.sig <- os.Interrupt
			<-ctx.Done()
			return open(ctx, o)
		}
		if code := s.run(append([]string{"steer"}, args...)...); code != codeInterrupted {
			t.Errorf("%s: code %d, %s", args[0], code, s.err.String())
		}
	}
	s, begun := newTest(t, "", enginetest.FakeConfig{}), filepath.Join(t.TempDir(), "begun")
	code := make(chan int)
	go func() {
		code <- s.run("steer", "sweep", "--vector", v, "--pairs", pairs, "--doses", "1", "--answers", "1", "--seeds", "1", "--max-tokens", "2", "--check", "touch "+begun+"; sleep 60")
	}()
	for range 2000 {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.sig <- os.Interrupt
	if got := <-code; got != codeInterrupted {
		t.Errorf("judging: code %d, %s", got, s.err.String())
	}
}

// TestSteerMeasureHelp holds the help of both commands.
func TestSteerMeasureHelp(t *testing.T) {
	for _, name := range []string{"sweep", "compare"} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run("steer", name, "--help"); code != codeOK {
			t.Errorf("code %d, %s", code, s.err.String())
		}
		golden(t, "help/trimtab-steer-"+name+".txt", s.out.String())
	}
}
