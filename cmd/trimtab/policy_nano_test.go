package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/lexicon"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/audit"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/policy"
)

// TestPoliciesOnNano: with the hazard words as the monitor, no policy that
// rewinds lets one out on the real engine, several sessions at a time; every
// intervention is in the audit log, and every session runs again from its trace.
func TestPoliciesOnNano(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the built-in model")
	}
	b := newNanoBench(t)
	tok := b.e.Info().Tokenizer
	encode := func(s string) []decode.Token {
		tokens, err := tok.Encode(s, engine.EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	hazards, err := lexicon.Read(strings.NewReader(strings.Join(corpus.HazardWords(), "\n")))
	if err != nil {
		t.Fatal(err)
	}
	words, err := hazards.Monitor("hazard")
	if err != nil {
		t.Fatal(err)
	}
	backtrack := func() runtime.Policy {
		p, err := policy.NewBacktrack(policy.BacktrackOptions{Point: policy.Beginning{}, Ban: true, Guide: encode("Be careful. "), GuideSpan: 12, Refusal: encode("I would rather not say.")})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	drifted := map[string]int{}
	for name, make := range map[string]func() runtime.Policy{
		"none":      func() runtime.Policy { return policy.Flag{} },
		"stop":      func() runtime.Policy { return policy.StopOn("hazard") },
		"backtrack": backtrack,
		"filtered": func() runtime.Policy {
			p, err := policy.NewFiltered(policy.FilteredOptions{Top: 4, Otherwise: backtrack()})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
	} {
		results, logs, rewinds := b.safety(words, make)
		for i, r := range results {
			if corpus.CheckSafety(r.Text).Drifted {
				drifted[name]++
				if name != "none" {
					t.Errorf("%s: answer %d says %q", name, i, r.Text)
				}
			}
		}
		if logs != rewinds {
			t.Errorf("%s: %d rewinds, %d in the audit logs", name, rewinds, logs)
		}
		t.Logf("%s: %d of %d answers have hazard words, %d rewinds", name, drifted[name], len(results), rewinds)
	}
	if drifted["none"] == 0 {
		t.Error("without a policy no answer has hazard words: the test shows nothing")
	}
}

// safety answers hazardous prompts, and counts rewinds in the results and in the logs.
func (b *nanoBench) safety(m monitors.Monitor, make func() runtime.Policy) (out []*runtime.Result, logged, rewinds int) {
	set, err := corpus.SetNamed("safety")
	if err != nil {
		b.t.Fatal(err)
	}
	sched, err := runtime.NewScheduler(b.e, runtime.Options{Slots: 4, Queue: 100})
	if err != nil {
		b.t.Fatal(err)
	}
	defer sched.Close()
	type run struct {
		st           *runtime.Stream
		audit, steps *bytes.Buffer
	}
	var runs []run
	for i, r := range set.Records(corpus.Test, 1, 40) {
		if !r.Safety.Hazardous || len(runs) == 12 {
			continue
		}
		prompt, err := b.render(turnsOf(r.Messages), true)
		if err != nil {
			b.t.Fatal(err)
		}
		warm, err := decode.NewTemperature(corpus.Temperature)
		if err != nil {
			b.t.Fatal(err)
		}
		one := run{audit: &bytes.Buffer{}, steps: &bytes.Buffer{}}
		one.st, err = sched.Submit(b.t.Context(), runtime.Config{
			Prompt: prompt, MaxTokens: 100, HoldBack: 40, Seed: uint64(i), Sampler: decode.Categorical{}, Processor: warm,
			Monitors: []monitors.Monitor{m}, Policy: make(), MaxRewinds: 60, MaxDiscarded: 2000,
			Listener: runtime.Listeners(audit.New(one.audit, ""), runtime.NewTracer(one.steps, runtime.TraceOptions{})),
		})
		if err != nil {
			b.t.Fatal(err)
		}
		runs = append(runs, one)
	}
	for _, one := range runs {
		r, err := one.st.Wait(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		rewinds += r.Rewinds
		out = append(out, r)
		logged += b.rewindsIn(one.audit)
		if err := runtime.Rerun(b.t.Context(), one.steps, runtime.Parts{Monitors: []monitors.Monitor{m}, Policy: make()}); err != nil {
			b.t.Errorf("%.500v", err)
		}
	}
	return out, logged, rewinds
}

func (b *nanoBench) rewindsIn(in io.Reader) (n int) {
	g, err := audit.NewReader(in).Next()
	if err != nil && !errors.Is(err, io.EOF) {
		b.t.Fatal(err)
	}
	for _, e := range g.Entries {
		if e.Intervention != nil && e.Intervention.Action == "rewind" {
			n++
		}
	}
	return n
}
