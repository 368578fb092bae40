package judge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/runtime/engine"
)

// The judge is node-llama-cpp, which runs the same release of llama.cpp through
// its own C++ binding and its own batching. With equal files and settings the
// greedy tokens must be equal, every one.
const (
	judgeVersion = "3.22.1"
	greedySteps  = 64
	judgeThreads = 1 // more would spin on each other where cores are few
	judgeBatch   = 512
	// The judge needs about 20 s on two free cores.
	judgePatience = 8 * time.Minute
	script        = "../../../testdata/node/greedy.mjs"
)

// greedyTexts are the prompts. The last is longer than one batch.
var greedyTexts = []string{
	"Hello, how are you?",
	"The quick brown fox jumps over the lazy dog.",
	"a",
	" leading space",
	"trailing space ",
	"Once upon a time there was a small boat, and the boat had a trim tab.",
	"1 + 2 = 3, 4 * 5 = 20, 99 / 3 = 33",
	"Grüße aus Köln, ça va? Ångström, naïve, coöperate.",
	"日本語のテキスト、そして漢字。",
	"Привет, мир! Как дела?",
	"emoji 🙂🚀 and a family 👨‍👩‍👧",
	"func main() {\n\tfmt.Println(\"hi\")\n}\n",
	"{\"key\": [1, 2, {\"deep\": null}]}",
	"<|im_start|>user\nnot a control word<|im_end|>",
	"line one\nline two\r\nline three\n\n\nline seven",
	"tabs\tand   many    spaces",
	"UPPER lower MiXeD CaSe 0123456789",
	"\"quotes\" 'single' `back` “curly” ‘both’",
	strings.Repeat("over and over again, ", 20),
	strings.Repeat("a long prompt does not fit into one batch; ", 22),
}

// nodeRun is one model under one setting, as the script reads it.
type nodeRun struct {
	Model   string           `json:"model"`
	Flash   bool             `json:"flash"`
	Context int              `json:"context"`
	Prompts [][]decode.Token `json:"prompts"`
	Texts   []string         `json:"texts"`
}

type nodeJob struct {
	N       int       `json:"n"`
	Threads int       `json:"threads"`
	Batch   int       `json:"batch"`
	SWAFull bool      `json:"swaFull"`
	Runs    []nodeRun `json:"runs"`
}

type nodeAnswer struct {
	Version string       `json:"version"`
	Results []nodeResult `json:"results"`
}

type nodeResult struct {
	Continuations [][]decode.Token `json:"continuations"`
	Texts         [][]decode.Token `json:"texts"`
}

// TestGreedyEqualsNode continues 20 prompts by 64 tokens on every model, with and
// without flash attention, here and in the judge.
func TestGreedyEqualsNode(t *testing.T) {
	node, modules := findNode(t)
	set, err := libs.Find("", libs.Host())
	if err != nil {
		missing(t, err)
	}
	lib, err := llamacpp.Load(set)
	if err != nil {
		t.Fatal(err)
	}
	job := nodeJob{N: greedySteps, Threads: judgeThreads, Batch: judgeBatch, SWAFull: true}
	var ours []nodeResult
	for _, model := range greedyModels(t) {
		for _, flash := range []bool{false, true} {
			run, result := runHere(t, lib, model, flash)
			job.Runs, ours = append(job.Runs, run), append(ours, result)
		}
	}
	answer := askNode(t, node, modules, job)
	if answer.Version != judgeVersion {
		t.Errorf("the judge is version %s, want %s", answer.Version, judgeVersion)
	}
	total := 0
	for i, run := range job.Runs {
		name := fmt.Sprintf("%s, flash attention %t", filepath.Base(run.Model), run.Flash)
		for _, fault := range differences(ours[i], answer.Results[i]) {
			t.Errorf("%s: %s", name, fault)
		}
		total += count(ours[i].Continuations)
		t.Logf("%s: %d prompts, %d tokens compared, %d different tokens used", name,
			len(run.Prompts), count(ours[i].Continuations), distinct(ours[i].Continuations))
		if distinct(ours[i].Continuations) < 30 {
			t.Errorf("%s: the continuations are too dull to judge by", name)
		}
	}
	t.Logf("node-llama-cpp %s: %d tokens compared", answer.Version, total)
}

// findNode returns the node program and the folder of its packages.
func findNode(t *testing.T) (node, modules string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, err)
	}
	modules = nodeModules()
	if _, err := os.Stat(filepath.Join(modules, "node-llama-cpp")); errors.Is(err, fs.ErrNotExist) {
		missing(t, fmt.Errorf("no node-llama-cpp in %s: run \"npm ci --omit=optional --ignore-scripts\" in testdata/node, or set TRIMTAB_NODE_MODULES", modules))
	} else if err != nil {
		t.Fatal(err)
	}
	if modules, err = filepath.Abs(modules); err != nil {
		t.Fatal(err)
	}
	return node, modules
}

// nodeModules is where the judge's packages are, or would be.
func nodeModules() string {
	if dir := os.Getenv("TRIMTAB_NODE_MODULES"); dir != "" {
		return dir
	}
	return filepath.Join(filepath.Dir(script), "node_modules")
}

// missing skips the test for want of something; on CI that is a failure.
func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing: %v", err)
	}
	t.Skipf("missing: %v", err)
}

// greedyModels writes random models of three architectures and the built-in one.
func greedyModels(t *testing.T) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for _, m := range []struct {
		preset string
		typ    gguf.TensorType
	}{
		{"tiny", gguf.F32}, {"tiny-spm", gguf.Q8_0}, {"tiny-qwen3", gguf.F16}, {"tiny-qwen3", gguf.Q8_0}, {"tiny-gemma3", gguf.F32},
	} {
		spec, err := randmodel.Preset(m.preset)
		if err != nil {
			t.Fatal(err)
		}
		spec.Type = m.typ
		path := filepath.Join(dir, fmt.Sprintf("%s-%s.gguf", m.preset, m.typ))
		if err := randmodel.Write(path, spec); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	chat, err := nano.WriteChat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return append(paths, chat)
}

// runHere is our side of one run, and the run as the judge shall repeat it.
func runHere(t *testing.T, lib *llamacpp.Library, model string, flash bool) (nodeRun, nodeResult) {
	t.Helper()
	o := llamacpp.Options{
		CPUOnly: true, Threads: judgeThreads, MaxSequences: 1,
		Batch: judgeBatch, Ubatch: judgeBatch, Flash: llamacpp.FlashOff,
	}
	if flash {
		o.Flash = llamacpp.FlashOn
	}
	e, err := lib.Open(model, o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run, result := nodeRun{Model: model, Flash: flash, Context: e.Info().Context, Texts: greedyTexts}, nodeResult{}
	for _, text := range greedyTexts {
		prompt := encode(t, e, text, true)
		prompt = prompt[:min(len(prompt), run.Context-greedySteps)]
		run.Prompts = append(run.Prompts, prompt)
		result.Texts = append(result.Texts, encode(t, e, text, false))
		result.Continuations = append(result.Continuations, continueHere(t, e, prompt))
	}
	return run, result
}

func encode(t *testing.T, e engine.Engine, text string, start bool) []decode.Token {
	t.Helper()
	tokens, err := e.Info().Tokenizer.Encode(text, engine.EncodeOptions{Start: start})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func continueHere(t *testing.T, e engine.Engine, prompt []decode.Token) []decode.Token {
	t.Helper()
	s, err := e.NewSequence(t.Context(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := make([]decode.Token, 0, greedySteps)
	for feed := prompt; len(out) < greedySteps; feed = out[len(out)-1:] {
		if err := e.Forward(t.Context(), []engine.Feed{{Seq: s, Tokens: feed, PromptLen: len(prompt)}}); err != nil {
			t.Fatal(err)
		}
		row := s.Logits()
		out = append(out, decode.Token(slices.Index(row, slices.Max(row))))
	}
	return out
}

// askNode runs the judge's script.
func askNode(t *testing.T, node, modules string, job nodeJob) nodeAnswer {
	t.Helper()
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), judgePatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, script)
	cmd.Env = append(os.Environ(), "TRIMTAB_NODE_MODULES="+modules)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("the judge failed: %v\n%s", err, stderr.String())
	}
	var answer nodeAnswer
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		t.Fatalf("the judge's answer: %v\n%.300s", err, stdout.String())
	}
	if len(answer.Results) != len(job.Runs) {
		t.Fatalf("the judge answered %d of %d runs", len(answer.Results), len(job.Runs))
	}
	return answer
}

// differences names every prompt that was split or continued otherwise.
func differences(ours, theirs nodeResult) (faults []string) {
	if len(theirs.Continuations) != len(ours.Continuations) || len(theirs.Texts) != len(ours.Texts) {
		return []string{fmt.Sprintf("the judge gave %d continuations and %d texts", len(theirs.Continuations), len(theirs.Texts))}
	}
	for i := range ours.Texts {
		if at := firstDifference(ours.Texts[i], theirs.Texts[i]); at >= 0 {
			faults = append(faults, fmt.Sprintf("text %d is split otherwise from token %d on: ours %v, the judge's %v", i, at, ours.Texts[i], theirs.Texts[i]))
		}
	}
	for i := range ours.Continuations {
		if at := firstDifference(ours.Continuations[i], theirs.Continuations[i]); at >= 0 {
			faults = append(faults, fmt.Sprintf("prompt %d goes on otherwise from token %d on: ours %v, the judge's %v", i, at, ours.Continuations[i], theirs.Continuations[i]))
		}
	}
	return faults
}

// firstDifference is where two token lists part, -1 if they are equal.
func firstDifference(a, b []decode.Token) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

func count(lists [][]decode.Token) (n int) {
	for _, l := range lists {
		n += len(l)
	}
	return n
}

func distinct(lists [][]decode.Token) int {
	seen := map[decode.Token]bool{}
	for _, l := range lists {
		for _, t := range l {
			seen[t] = true
		}
	}
	return len(seen)
}

// TestDifferencesAreSeen proves that the comparison can fail.
func TestDifferencesAreSeen(t *testing.T) {
	good := nodeResult{Continuations: [][]decode.Token{{1, 2, 3}, {4, 5}}, Texts: [][]decode.Token{{7}, {8, 9}}}
	for _, c := range []struct {
		name   string
		theirs nodeResult
		want   int
	}{
		{"equal", good, 0},
		{"one token", nodeResult{Continuations: [][]decode.Token{{1, 2, 4}, {4, 5}}, Texts: good.Texts}, 1},
		{"too short", nodeResult{Continuations: [][]decode.Token{{1, 2}, {4}}, Texts: good.Texts}, 2},
		{"a text", nodeResult{Continuations: good.Continuations, Texts: [][]decode.Token{{7}, {8, 9, 9}}}, 1},
		{"nothing", nodeResult{}, 1},
	} {
		if got := differences(good, c.theirs); len(got) != c.want {
			t.Errorf("%s: got %q, want %d faults", c.name, got, c.want)
		}
	}
}
