package chat

import "fmt"

// Kind names what a [Probe] measures.
type Kind string

// The kinds of probes. Those without a suffix tell the model nothing about the
// mode; "cue" announces it, "shown" has an earlier turn in it.
const (
	KindArithmetic      Kind = "arithmetic"
	KindArithmeticCue   Kind = "arithmetic-cue"
	KindArithmeticShown Kind = "arithmetic-shown"
	KindStyle           Kind = "style"
	KindStyleCue        Kind = "style-cue"
	KindStyleShown      Kind = "style-shown"
	KindHazardous       Kind = "safety-hazardous"
	KindBenign          Kind = "safety-benign"
	KindSafetyCue       Kind = "safety-cue"
	KindSafetyShown     Kind = "safety-shown"
	KindStory           Kind = "stories"
	KindStoryCue        Kind = "stories-cue"
	KindCorrection      Kind = "correction"
	KindRestyle         Kind = "correction-style"
	KindInstruction     Kind = "instructions"
	KindSumJSON         Kind = "instructions-sum-json"
)

// Kinds lists the kinds of probes.
func Kinds() []Kind {
	return []Kind{KindArithmetic, KindArithmeticCue, KindArithmeticShown, KindStyle, KindStyleCue, KindStyleShown,
		KindHazardous, KindBenign, KindSafetyCue, KindSafetyShown, KindStory, KindStoryCue, KindCorrection,
		KindRestyle, KindInstruction, KindSumJSON}
}

// Probe is a prompt with everything its checker needs. Which of the fields
// after Messages are set depends on the kind.
type Probe struct {
	Kind     Kind      `json:"kind"`
	Messages []Message `json:"messages"`

	Sum       *Sum          `json:"sum,omitempty"`
	Given     int           `json:"given,omitempty"`     // the earlier answer that is objected to
	Objection Objection     `json:"objection,omitempty"` // what the user says to it
	Safety    *SafetyPrompt `json:"safety,omitempty"`
	Order     *Instruction  `json:"order,omitempty"`
	Attribute Attribute     `json:"attribute,omitempty"` // what a style cue is about
	Style     *Style        `json:"style,omitempty"`     // the style shown or asked for

	// What the cue or the earlier turn asks for.
	Mode   Mode   `json:"mode,omitempty"`
	Value  bool   `json:"value,omitempty"` // of Attribute; or that a safety answer drifts
	Ending Ending `json:"ending,omitempty"`
}

// Probes writes n probes of a kind from combinations of one split. It is
// deterministic and safe for concurrent use; an unknown kind is an error.
func Probes(kind Kind, split Split, seed uint64, n int) ([]Probe, error) {
	write := probeWriters()[kind]
	if write == nil {
		return nil, fmt.Errorf("unknown kind of probe %q", kind)
	}
	out := make([]Probe, n)
	for i := range out {
		out[i] = write(newGen(seed, uint64(i), split), i)
		out[i].Kind = kind
	}
	return out, nil
}

// probeWriters returns the generator of each kind. The second argument counts
// up, so that both values of what is asked for appear equally often.
func probeWriters() map[Kind]func(*gen, int) Probe {
	return map[Kind]func(*gen, int) Probe{
		KindArithmetic:      func(g *gen, _ int) Probe { return arithmeticProbe(g, "", false) },
		KindArithmeticCue:   func(g *gen, i int) Probe { return arithmeticProbe(g, modeAt(i), true) },
		KindArithmeticShown: func(g *gen, i int) Probe { return arithmeticProbe(g, modeAt(i), false) },
		KindStyle:           func(g *gen, _ int) Probe { return styleProbe(g) },
		KindStyleCue:        styleCueProbe,
		KindStyleShown:      func(g *gen, _ int) Probe { return styleShownProbe(g) },
		KindHazardous:       func(g *gen, _ int) Probe { return safetyProbe(g, true) },
		KindBenign:          func(g *gen, _ int) Probe { return safetyProbe(g, false) },
		KindSafetyCue:       safetyCueProbe,
		KindSafetyShown:     safetyShownProbe,
		KindStory:           func(g *gen, _ int) Probe { return storyProbe(g, "") },
		KindStoryCue:        func(g *gen, i int) Probe { return storyProbe(g, []Ending{Happy, Sad}[i%2]) },
		KindCorrection:      func(g *gen, i int) Probe { return correctionProbe(g, Objections()[i%4]) },
		KindRestyle:         restyleProbe,
		KindInstruction:     func(g *gen, _ int) Probe { return instructionProbe(g) },
		KindSumJSON:         func(g *gen, _ int) Probe { return sumJSONProbe(g) },
	}
}

func modeAt(i int) Mode { return []Mode{Careful, Hasty}[i%2] }

func arithmeticProbe(g *gen, m Mode, cued bool) Probe {
	s := g.sum()
	p := Probe{Sum: &s, Mode: m}
	switch {
	case cued:
		p.Messages = opened(g, s.question(g), pick(g, modeCues(m)))
	case m != "":
		before := g.sum()
		p.Messages = []Message{{User, before.question(g)}, {Assistant, before.answer(g, m)}, {User, s.question(g)}}
	default:
		p.Messages = []Message{{User, s.question(g)}}
	}
	return p
}

func styleProbe(g *gen) Probe {
	_, q := g.stylePrompt()
	return Probe{Messages: []Message{{User, q}}}
}

func styleCueProbe(g *gen, i int) Probe {
	_, q := g.stylePrompt()
	a, v := Attributes()[i%3], i/3%2 == 0
	return Probe{Attribute: a, Value: v, Messages: opened(g, q, pick(g, styleCues(a, v)))}
}

func styleShownProbe(g *gen) Probe {
	s := g.style()
	t, q := g.stylePrompt()
	_, next := g.stylePrompt()
	return Probe{Style: &s, Messages: []Message{{User, q}, {Assistant, s.answer(g, t)}, {User, next}}}
}

// safetyPromptOf draws a prompt of one kind of object.
func (g *gen) safetyPromptOf(hazardous bool) SafetyPrompt {
	p := g.safetyPrompt()
	for range maxDraws {
		if p.Hazardous == hazardous {
			break
		}
		p = g.safetyPrompt()
	}
	return p
}

func safetyProbe(g *gen, hazardous bool) Probe {
	p := g.safetyPromptOf(hazardous)
	return Probe{Safety: &p, Messages: []Message{{User, p.Text()}}}
}

func safetyCueProbe(g *gen, i int) Probe {
	p, drift := g.safetyPromptOf(true), i%2 == 0
	return Probe{Safety: &p, Value: drift, Messages: opened(g, p.Text(), pick(g, safetyCues(drift)))}
}

func safetyShownProbe(g *gen, i int) Probe {
	before, p, drift := g.safetyPromptOf(true), g.safetyPromptOf(true), i%2 == 0
	answer := before.answer(g, g.openingGiven(drift, true), drift)
	return Probe{Safety: &p, Value: drift,
		Messages: []Message{{User, before.Text()}, {Assistant, answer}, {User, p.Text()}}}
}

func storyProbe(g *gen, e Ending) Probe {
	p := g.storyPrompt()
	if e == "" {
		return Probe{Messages: []Message{{User, p.Text()}}}
	}
	return Probe{Ending: e, Messages: opened(g, p.Text(), pick(g, storyCues(e)))}
}

func correctionProbe(g *gen, o Objection) Probe {
	s := g.sum()
	given := s.slip(g)
	return Probe{Sum: &s, Given: given, Objection: o, Messages: []Message{{User, s.question(g)},
		{Assistant, HastyAnswer(given)}, {User, g.casing(o.text(g, s.Answer()))}}}
}

func restyleProbe(g *gen, i int) Probe {
	t, q := g.stylePrompt()
	s, a := g.style(), Attributes()[i%3]
	other := s.With(a, !s.Get(a))
	return Probe{Style: &other, Attribute: a, Value: other.Get(a), Messages: []Message{{User, q},
		{Assistant, s.answer(g, t)}, {User, RestyleText(a, other.Get(a))}}}
}

func instructionProbe(g *gen) Probe {
	in := g.instruction()
	return Probe{Order: &in, Messages: []Message{{User, in.Text()}}}
}

func sumJSONProbe(g *gen) Probe {
	s := g.sum()
	return Probe{Sum: &s, Messages: []Message{{User, "answer in JSON: " + s.question(g)}}}
}
