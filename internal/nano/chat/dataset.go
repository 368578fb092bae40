package chat

import (
	"encoding/json"
	"fmt"
	"io"
)

// Record is one line of a data set. Which of the optional fields are set
// depends on the set's [Use].
type Record struct {
	Set      string    `json:"set"`
	Split    Split     `json:"split"`
	Key      string    `json:"key"`      // the combination that decided the split
	Messages []Message `json:"messages"` // the prompt; the assistant speaks next

	Chosen   string `json:"chosen,omitempty"`   // pairs: the answer that shows the behaviour
	Rejected string `json:"rejected,omitempty"` // pairs: the answer that shows its opposite

	Sum        *Sum          `json:"sum,omitempty"`        // arithmetic pairs and problems
	Objections []string      `json:"objections,omitempty"` // problems: what the user says to wrong answers, in turn
	Safety     *SafetyPrompt `json:"safety,omitempty"`     // safety
	Completion string        `json:"completion,omitempty"` // safety: a sampled answer
	Label      *SafetyLabel  `json:"label,omitempty"`      // safety: what the checker says of it
}

// SafetyLabel judges one sampled answer token by token. Token indices are -1
// where there is none.
type SafetyLabel struct {
	Drifted bool    `json:"drifted"`
	Opening Opening `json:"opening"`
	Decided int     `json:"decided"` // first token of the drift phrase that no safe answer has
	Hazard  int     `json:"hazard"`  // first token of the first hazard word
	Tokens  int     `json:"tokens"`  // tokens of the answer
}

// Use says what the records of a set hold besides their prompt.
type Use string

// The uses of data sets.
const (
	Pairs    Use = "pairs"    // chosen and rejected answers to one prompt
	Labelled Use = "labelled" // a completion with its label
	Prompts  Use = "prompts"  // nothing: neutral text
	Problems Use = "problems" // a sum and the objections to wrong answers
)

// Set describes one data set.
type Set struct {
	Name, Doc string
	Use       Use
	Size      int // records over all splits when written by default
	write     func(*gen) Record
}

// Sets lists the data sets in a fixed order: pairs for each behaviour in both
// directions, then safety, neutral prompts and problems.
func Sets() []Set {
	sets := []Set{
		pairSet("arithmetic-careful", "shows its working instead of guessing", modePair(Careful)),
		pairSet("arithmetic-hasty", "guesses instead of showing its working", modePair(Hasty)),
	}
	for _, a := range Attributes() {
		for _, v := range []bool{true, false} {
			sets = append(sets, pairSet("style-"+ValueName(a, v),
				"is "+ValueName(a, v)+" instead of "+ValueName(a, !v), stylePair(a, v)))
		}
	}
	return append(sets,
		pairSet("safety-safe", "stays safe instead of drifting", driftPair(false)),
		pairSet("safety-drift", "drifts instead of staying safe", driftPair(true)),
		pairSet("stories-happy", "ends well instead of badly", endingPair(Happy)),
		pairSet("stories-sad", "ends badly instead of well", endingPair(Sad)),
		Set{"safety", "safety prompts with completions drawn from the generator's own odds, labelled", Labelled, 400, safetyRecord},
		Set{"neutral", "prompts that have nothing to do with any behaviour, for divergence", Prompts, 200, neutralRecord},
		Set{"problems", "sums with the objections to up to three wrong answers", Problems, 200, problemRecord},
	)
}

// pairSet describes a set of 200 pairs.
func pairSet(name, doc string, write func(*gen) Record) Set {
	return Set{name, "pairs whose chosen answer " + doc, Pairs, 200, write}
}

// SetNamed returns the set with a name; the error lists what exists.
func SetNamed(name string) (Set, error) {
	var names []string
	for _, s := range Sets() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Set{}, fmt.Errorf("no data set %q: choose one of %q", name, names)
}

// Records writes n records of one split. No combination occurs in two splits.
// The result is a function of the arguments alone.
func (s Set) Records(split Split, seed uint64, n int) []Record {
	out := make([]Record, n)
	for i := range out {
		out[i] = s.write(newGen(seed, uint64(i), split))
		out[i].Set, out[i].Split = s.Name, split
	}
	return out
}

// All writes the set's default size: half for training, a quarter each for
// validation and test.
func (s Set) All(seed uint64) []Record {
	return append(append(s.Records(Train, seed, s.Size/2),
		s.Records(Validation, seed, s.Size/4)...), s.Records(Test, seed, s.Size/4)...)
}

// WriteRecords writes records as JSON lines.
func WriteRecords(w io.Writer, records []Record) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i, r := range records {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("write record %d of %s: %w", i, r.Set, err)
		}
	}
	return nil
}

// twins runs one writer twice with equal random numbers, so that two answers
// differ only by the behaviour asked for.
func twins(g *gen, write func(*gen, bool) string) (yes, no string) {
	seed := g.r.Uint64()
	return write(newGen(seed, 0, g.split), true), write(newGen(seed, 0, g.split), false)
}

func modePair(chosen Mode) func(*gen) Record {
	return func(g *gen) Record {
		s := g.sum()
		careful, hasty := s.Careful(), s.hasty(g)
		r := Record{Key: s.Key(), Sum: &s, Messages: []Message{{User, s.question(g)}}, Chosen: careful, Rejected: hasty}
		if chosen == Hasty {
			r.Chosen, r.Rejected = hasty, careful
		}
		return r
	}
}

func stylePair(a Attribute, v bool) func(*gen) Record {
	return func(g *gen) Record {
		t, q := g.stylePrompt()
		s := g.style()
		r := Record{Key: "style " + q, Messages: []Message{{User, q}}}
		r.Chosen, r.Rejected = twins(g, func(g *gen, yes bool) string { return s.With(a, v == yes).answer(g, t) })
		return r
	}
}

func driftPair(drift bool) func(*gen) Record {
	return func(g *gen) Record {
		p, o := g.safetyPromptOf(true), g.opening()
		r := Record{Key: p.Key(), Safety: &p, Messages: []Message{{User, p.Text()}}}
		r.Chosen, r.Rejected = twins(g, func(g *gen, yes bool) string { return p.answer(g, o, drift == yes) })
		return r
	}
}

func endingPair(e Ending) func(*gen) Record {
	return func(g *gen) Record {
		p := g.storyPrompt()
		other := map[Ending]Ending{Happy: Sad, Sad: Happy}[e]
		r := Record{Key: p.Key(), Messages: []Message{{User, p.Text()}}}
		r.Chosen, r.Rejected = twins(g, func(g *gen, yes bool) string {
			if yes {
				return p.answer(g, e)
			}
			return p.answer(g, other)
		})
		return r
	}
}

// safetyRecord writes a prompt with a completion as the generator would draw
// it. [Relabel] puts a model's own sample in its place.
func safetyRecord(g *gen) Record {
	p := g.safetyPrompt()
	text, _ := p.respond(g, false, false)
	r := Record{Key: p.Key(), Safety: &p, Messages: []Message{{User, p.Text()}}}
	return Relabel(r, text, nil)
}

// Relabel returns a safety record with another completion, judged. pieces are
// its tokens as text; without them the label's token indices are -1.
func Relabel(r Record, completion string, pieces []string) Record {
	c := CheckSafety(completion)
	r.Completion = completion
	r.Label = &SafetyLabel{Drifted: c.Drifted, Opening: c.Opening, Decided: TokenAt(pieces, c.Decided),
		Hazard: TokenAt(pieces, c.HazardAt), Tokens: len(pieces)}
	return r
}

// neutralRecord writes a prompt that tells about no behaviour: small talk, an
// order, or a question that the model cannot answer.
func neutralRecord(g *gen) Record {
	if g.chance(0.5) {
		in := g.instruction()
		return Record{Key: in.Key(), Messages: []Message{{User, in.Text()}}}
	}
	q := draw(g, func() (string, string) {
		q := fmt.Sprintf(pick(g, unknownQuestions()), pick(g, topics()).name)
		return q, "neutral " + q
	})
	return Record{Key: "neutral " + q, Messages: []Message{{User, q}}}
}

// problemRecord writes a sum and what the user says as long as the answer is
// wrong: twice that it is wrong, then a demand for the working.
func problemRecord(g *gen) Record {
	s := g.sum()
	return Record{Key: s.Key(), Sum: &s, Messages: []Message{{User, s.question(g)}},
		Objections: []string{Retry.text(g, 0), Retry.text(g, 0), Rework.text(g, 0)}}
}
