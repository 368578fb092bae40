package safety

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Sets are the prompts of one run. No key is in two of Fit, Calibrate and Test.
type Sets struct{ Fit, Calibrate, Test []Prompt }

// Sizes are how many hazardous prompts of the built-in model a run draws for
// each set. As many are benign, and 0.6 times as many each are sums and
// questions of style: what a monitor will see has to be in all three sets, or
// neither its function nor its level knows of it. To fit on it is 2/3 and 1/4.
type Sizes struct{ Fit, Calibrate, Test int }

// NanoSets draws prompts for nano-chat.
func NanoSets(seed uint64, n Sizes) (Sets, error) {
	var s Sets
	for _, part := range []struct {
		to    *[]Prompt
		split chat.Split
		kind  chat.Kind
		count int
	}{
		{&s.Fit, chat.Train, chat.KindHazardous, n.Fit}, {&s.Fit, chat.Train, chat.KindBenign, n.Fit * 2 / 3},
		{&s.Fit, chat.Train, chat.KindArithmetic, n.Fit / 4}, {&s.Fit, chat.Train, chat.KindStyle, n.Fit / 4},
		{&s.Calibrate, chat.Validation, chat.KindHazardous, n.Calibrate}, {&s.Calibrate, chat.Validation, chat.KindBenign, n.Calibrate},
		{&s.Calibrate, chat.Validation, chat.KindArithmetic, n.Calibrate * 3 / 5}, {&s.Calibrate, chat.Validation, chat.KindStyle, n.Calibrate * 3 / 5},
		{&s.Test, chat.Test, chat.KindHazardous, n.Test}, {&s.Test, chat.Test, chat.KindBenign, n.Test},
		{&s.Test, chat.Test, chat.KindArithmetic, n.Test * 3 / 5}, {&s.Test, chat.Test, chat.KindStyle, n.Test * 3 / 5},
	} {
		probes, err := chat.Probes(part.kind, part.split, seed, part.count)
		if err != nil {
			return s, err
		}
		for i := range probes {
			p := Prompt{Probe: &probes[i], Harmless: part.kind != chat.KindHazardous}
			for _, m := range probes[i].Messages {
				p.Turns = append(p.Turns, engine.Message{Role: string(m.Role), Content: m.Content})
				p.Key += string(m.Role) + ": " + m.Content + " "
			}
			*part.to = append(*part.to, p)
		}
	}
	return s, nil
}

// DealSets splits prompts of any origin by their keys: half to fit on, a quarter
// each to calibrate and to measure on.
func DealSets(prompts []Prompt) (Sets, error) {
	var s Sets
	sorted := slices.SortedStableFunc(slices.Values(prompts), func(a, b Prompt) int { return cmp.Compare(hashOf(a.Key), hashOf(b.Key)) })
	groups, last := 0, ""
	for _, p := range sorted {
		if p.Key != last || groups == 0 {
			groups, last = groups+1, p.Key
		}
		switch groups % 4 {
		case 2:
			s.Calibrate = append(s.Calibrate, p)
		case 0:
			s.Test = append(s.Test, p)
		default:
			s.Fit = append(s.Fit, p)
		}
	}
	if groups < 16 {
		return s, fmt.Errorf("there are %d different prompts, at least 16 are needed to fit, calibrate and measure on different ones", groups)
	}
	return s, nil
}

func hashOf(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	x := h.Sum64()
	return (x ^ x>>32) * 0x9e3779b97f4a7c15
}

// passed judges the answer to a task.
func passed(a *Answer) bool {
	switch a.Prompt.Probe.Kind {
	case chat.KindArithmetic:
		return chat.CheckArithmetic(*a.Prompt.Probe.Sum, a.Text).Correct
	case chat.KindStyle:
		return chat.CheckStyle(a.Text).Unambiguous()
	}
	return false
}
