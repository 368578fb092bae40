package safety

import (
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/lexicon"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/runtime"
	prompting "github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/runtime/policy"
	"github.com/trimtab/trimtab/steer"
)

// Settings are the texts and numbers of the arms.
type Settings struct {
	Cue     string        // asks for safety in words: as a prompt, and as guidance
	Refusal string        // ends what could not be mended
	Phrases *lexicon.List // for the lexicon stop; nil leaves that arm out
	Hold    int           // hold-back of arms that rewind, in tokens
	Most    int           // rewinds of one answer
}

// parts are what the arms of one seed are made of.
type parts struct {
	set                        Settings
	watch                      Detector // at a block that no filter edits
	linear, facets, rl, sample *reach.Model
	tuned                      map[string]reach.FilterOptions
	refusal                    []decode.Token
	guide                      []decode.Token // a turn of the user's with the cue, and the next answer's header
	seed                       uint64
}

// filter is the plan of a tuned filter; name is that of its settings.
func (p *parts) filter(name string, m *reach.Model) (*steer.Plan, error) {
	iv, err := m.Filter(p.tuned[name])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return steer.NewPlan(iv)
}

// Names of the arms that have settings to tune, and of one that is judged.
const (
	armLinear = "LiSeCo (linear, closed form)"
	armFacets = "SAP-like (facets)"
	armAlways = "RE-Control-like (always-on ascent)"
	armRL     = "BRT filter, RL"
	armSample = "BRT filter, SAMPLE"
	armBoth   = "filter + rollback"
)

func (p *parts) filters() map[string]*reach.Model {
	return map[string]*reach.Model{armLinear: p.linear, armFacets: p.facets, armAlways: p.sample, armRL: p.rl, armSample: p.sample}
}

// arms lists every way to make answers safer, the model as it is first.
func (p *parts) arms() ([]Arm, error) {
	watch, err := reach.NewMonitor(p.watch.Model, reach.MonitorOptions{Level: &p.watch.Level})
	if err != nil {
		return nil, err
	}
	list := []Arm{
		{Name: "base", Doc: "the model as it is"},
		{Name: "safety prompt", Doc: fmt.Sprintf("the system message %q", p.set.Cue), Cue: p.set.Cue},
		{Name: "post-hoc text filter", Doc: "the labeller itself looks at complete answers and replaces unsafe ones", Replace: p.set.Refusal},
	}
	if p.set.Phrases != nil {
		words, err := p.set.Phrases.Monitor("lexicon")
		if err != nil {
			return nil, err
		}
		list = append(list, Arm{Name: "lexicon stop", Doc: "stops before the first listed phrase", Monitors: []monitors.Monitor{words}, HoldBack: 4,
			Policy: func() (runtime.Policy, error) { return &policy.Threshold{Do: runtime.Stop, Release: true}, nil }})
	}
	for _, name := range []string{armLinear, armFacets, armAlways, armRL, armSample} {
		plan, err := p.filter(name, p.filters()[name])
		if err != nil {
			return nil, err
		}
		list = append(list, Arm{Name: name, Plan: plan, Doc: "edits the state of the last block only"})
	}
	random, err := p.random()
	if err != nil {
		return nil, err
	}
	plan, err := p.filter(armSample, p.sample)
	if err != nil {
		return nil, err
	}
	list = append(list, Arm{Name: "random direction", Plan: random, Doc: "control: every row moves as far as the BRT filter may, in one random direction"},
		Arm{Name: "value-filtered choice", Doc: "a token that leads below the level is drawn again, up to 8 times", Monitors: []monitors.Monitor{watch}, HoldBack: p.set.Hold, Policy: p.choice})
	list = append(list, p.rollbacks([]monitors.Monitor{watch}, plan)...)
	return list, nil
}

func (p *parts) rollbacks(watch []monitors.Monitor, plan *steer.Plan) []Arm {
	return []Arm{
		{Name: "rollback alone", Doc: "back to the beginning of the sentence; after two failures to the one before", Monitors: watch, HoldBack: p.set.Hold, Policy: p.back},
		{Name: "rollback + guidance", Doc: "back to the answer's beginning, with the cue as a hidden turn", Monitors: watch, HoldBack: p.set.Hold, Policy: p.guided},
		{Name: armBoth, Doc: "BRT filter, SAMPLE, with rollback where it was not enough", Plan: plan, Monitors: watch, HoldBack: p.set.Hold, Policy: p.back},
		{Name: "filter + choice + rollback", Doc: "all three in that order", Plan: plan, Monitors: watch, HoldBack: p.set.Hold, Policy: p.choiceThenBack},
	}
}

func (p *parts) back() (runtime.Policy, error) {
	return policy.NewBacktrack(policy.BacktrackOptions{Point: policy.Beginning{}, Most: p.set.Most, Refusal: p.refusal})
}

func (p *parts) guided() (runtime.Policy, error) {
	return policy.NewBacktrack(policy.BacktrackOptions{Point: policy.Fixed(p.set.Hold), Most: p.set.Most, Guide: p.guide, Refusal: p.refusal})
}

func (p *parts) choice() (runtime.Policy, error) {
	return policy.NewFiltered(policy.FilteredOptions{})
}

func (p *parts) choiceThenBack() (runtime.Policy, error) {
	back, err := p.back()
	if err != nil {
		return nil, err
	}
	return policy.NewFiltered(policy.FilteredOptions{Otherwise: back})
}

// random moves every row along one random direction by the filter's radius.
func (p *parts) random() (*steer.Plan, error) {
	v := reach.Random(&p.sample.Value, p.seed)
	v.Norm = false // one direction for every row
	m := *p.sample
	m.Value = v
	o := p.tuned[armSample]
	o.Always, o.Steps = true, 1
	iv, err := m.Filter(o)
	if err != nil {
		return nil, err
	}
	return steer.NewPlan(iv)
}

// texts encodes the refusal and the guidance.
func (b *Bench) texts(p *parts, some *Prompt) (err error) {
	if p.refusal, err = b.plain(p.set.Refusal); err != nil {
		return err
	}
	// The guidance is what the template writes between an empty answer and the
	// next one, whatever the template is.
	ask := func(more ...prompting.Message) ([]decode.Token, error) {
		in := prompting.Input{AddGenerationPrompt: true}
		for _, m := range some.Turns {
			in.Messages = append(in.Messages, prompting.Message{Role: m.Role, Content: m.Content})
		}
		in.Messages = append(in.Messages, more...)
		return b.Prompter.Prompt(in)
	}
	before, err := ask()
	if err != nil {
		return err
	}
	after, err := ask(prompting.Message{Role: "assistant"}, prompting.Message{Role: "user", Content: p.set.Cue})
	if err != nil {
		return err
	}
	if len(after) <= len(before) || !slices.Equal(after[:len(before)], before) {
		// A template that hides empty answers: the cue goes in as plain text.
		p.guide, err = b.plain(p.set.Cue + " ")
		return err
	}
	p.guide = after[len(before):]
	return nil
}
