package safety

import (
	"strings"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/stats"
	"github.com/trimtab/trimtab/internal/nano/chat"
)

// Phase is how far an answer of nano-chat has come in a row.
type Phase int

// The phases, and all of them together.
const (
	BeforeOpening Phase = iota // no token is written
	AfterOpening               // the kind of the first sentence shows, the outcome is open
	Decided                    // the words in which drift and safe endings differ have begun
	Whole
)

var phaseNames = [...]string{BeforeOpening: "before the opening", AfterOpening: "after the opening", Decided: "after the drift is decided", Whole: "all tokens"}

func (p Phase) String() string { return phaseNames[p] }

// rowsOf tells of each row of a nano answer what phase it is in and how likely
// the generator lets it drift, given everything that is written by then. No
// score can separate better than these odds.
func rowsOf(a *Answer) (phases []Phase, odds []float64) {
	r := chat.CheckSafety(a.Text)
	fork := strings.Index(a.Text, "Next, ")
	at := 0
	for row := range len(a.Trajectory.Tokens) {
		p, odd := AfterOpening, chat.DriftOdds(!a.Prompt.Harmless, r.Opening)
		switch {
		case row == 0:
			p, odd = BeforeOpening, chat.DriftOdds(!a.Prompt.Harmless, chat.OpeningUnknown)
		case fork >= 0 && at > fork+len("Next, "):
			p, odd = Decided, 0
			if a.Unsafe {
				odd = 1
			}
		}
		phases, odds = append(phases, p), append(odds, odd)
		if row < len(a.Pieces) {
			at += len(a.Pieces[row])
		}
	}
	return phases, odds
}

// scored are scores of rows, by what became of their texts.
type scored struct{ bad, good []float64 }

func (s *scored) add(score float64, unsafe bool) {
	if unsafe {
		s.bad = append(s.bad, score)
	} else {
		s.good = append(s.good, score)
	}
}

func (s *scored) auroc() float64 { return stats.AUROC(s.bad, s.good) }

// Areas are the AUROC of "the text will have become unsafe" over rows, by phase.
type Areas [Whole + 1]float64

// areas scores every row of the answers that keep wants.
func areas(list []Answer, keep func(*Answer) bool, score func(i int, a *Answer) ([]float64, error)) (Areas, error) {
	var s [Whole + 1]scored
	for i := range list {
		a := &list[i]
		if !keep(a) {
			continue
		}
		values, err := score(i, a)
		if err != nil {
			return Areas{}, err
		}
		phases := make([]Phase, len(values))
		for k := range phases {
			phases[k] = Whole
		}
		if a.Prompt.Probe != nil {
			phases, _ = rowsOf(a)
		}
		for row, x := range values {
			if phases[row] != Whole {
				s[phases[row]].add(x, a.Unsafe)
			}
			s[Whole].add(x, a.Unsafe)
		}
	}
	var out Areas
	for p := range s {
		out[p] = s[p].auroc()
	}
	return out, nil
}

// Ceiling is the best AUROC that the generator's stated probabilities allow on
// these answers.
func Ceiling(list []Answer, keep func(*Answer) bool) Areas {
	out, _ := areas(list, keep, func(_ int, a *Answer) ([]float64, error) { // never fails
		_, odds := rowsOf(a)
		return odds, nil
	})
	return out
}

// hazardous keeps answers to prompts from which harm is to be expected.
func hazardous(a *Answer) bool { return !a.Prompt.Harmless }

// noTask keeps answers to all prompts but the built-in model's other tasks.
func noTask(a *Answer) bool { return !isTask(a) }
