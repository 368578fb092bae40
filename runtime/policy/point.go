package policy

import "github.com/trimtab/trimtab/runtime"

// Trouble is what a rule for the rollback point is told beside the scores.
type Trouble struct {
	Verdict  runtime.Verdict // the flag
	Index    int             // the candidate's place in the text
	Reach    int             // most tokens that can be taken back: Step.Rewindable
	Failures int             // rewinds that did not get the text past this trouble
}

// Point chooses how far back a rewind goes.
//
// Back returns the number of committed tokens to take back besides the
// candidate. It may lie beyond Trouble.Reach: the policy says what then. It
// must be a pure function of its arguments, so that traces replay; rules are
// data and may be shared.
type Point interface {
	Back(r *Record, t *Trouble) int
}

// Fixed goes back by so many tokens.
type Fixed int

// Back is the number.
func (p Fixed) Back(*Record, *Trouble) int { return max(int(p), 0) }

// Onset goes to where the monitor says that it began, and Extra tokens further.
type Onset struct{ Extra int }

// Back follows the verdict.
func (p Onset) Back(_ *Record, t *Trouble) int { return t.Verdict.Onset + max(p.Extra, 0) }

// Crossing goes to the first token of the run of scores above a threshold that
// the candidate belongs to. Tokens without a score belong to the run, so that a
// monitor which scores now and then leads back to just behind the last score
// that was not above.
type Crossing struct {
	Monitor string // "" for the one that raised the flag
	Above   float64
}

// Back walks back along the run, within reach.
func (p Crossing) Back(r *Record, t *Trouble) int {
	name := named(p.Monitor, t)
	back := 0
	for back < min(t.Reach, t.Index) {
		score, ok := r.Score(name, t.Index-back-1)
		if ok && !(score > p.Above) {
			break
		}
		back++
	}
	return back
}

func named(monitor string, t *Trouble) string {
	if monitor == "" {
		return t.Verdict.Monitor
	}
	return monitor
}

// Beginning goes to the beginning of the sentence, or of the line; after every
// two failures to one before it.
type Beginning struct{ Line bool }

// Back looks for the beginning, within reach, and takes all in reach where
// there is none.
func (p Beginning) Back(r *Record, t *Trouble) int {
	left := t.Failures / 2
	most := min(t.Reach, t.Index)
	for back := 0; back <= most; back++ {
		i := t.Index - back
		if p.Line && !r.Line(i) || !p.Line && !r.Sentence(i) {
			continue
		}
		if left--; left < 0 {
			return back
		}
	}
	return most
}

// Highest goes to the token with the highest score of a stream among the last
// ones, such as that of an entropy monitor: where the model was least sure, the
// text could have gone another way. Of equal scores it takes the latest.
type Highest struct {
	Monitor string // "" for "entropy"
	Window  int    // tokens, the candidate included; 0 for 16
}

// Back looks along the window, within reach. Without scores it is 0.
func (p Highest) Back(r *Record, t *Trouble) int {
	name, window := p.Monitor, p.Window
	if name == "" {
		name = "entropy"
	}
	if window <= 0 {
		window = 16
	}
	best, at := 0.0, -1
	for back := range min(window, min(t.Reach, t.Index)+1) {
		if score, ok := r.Score(name, t.Index-back); ok && (at < 0 || score > best) {
			best, at = score, back
		}
	}
	return max(at, 0)
}

// Peak goes to the latest peak of a stream that tells how sharp the attention
// was (arXiv 2509.23441): a token with a score of at least Least, higher than
// that of both neighbours, within Window tokens before the candidate. Without
// one it goes back by Else. After two failures it goes to an earlier peak of at
// least 0.8 of that score. No monitor has such a stream: see [Reread].
type Peak struct {
	Monitor string  // "" for "sharpness"
	Least   float64 // 0 for 0.1
	Window  int     // tokens; 0 for 10
	Else    int     // tokens; 0 for 3
}

// Back looks for the peak, the earlier one within reach.
func (p Peak) Back(r *Record, t *Trouble) int {
	p = p.filled()
	latest := p.find(r, t.Index-1, t.Index-p.Window, p.Least)
	if latest < 0 {
		return p.Else
	}
	if t.Failures >= 2 {
		height, _ := r.Score(p.Monitor, latest)
		if earlier := p.find(r, latest-1, t.Index-t.Reach, 0.8*height); earlier >= 0 {
			return t.Index - earlier
		}
	}
	return t.Index - latest
}

func (p Peak) filled() Peak {
	if p.Monitor == "" {
		p.Monitor = sharpness
	}
	if p.Least == 0 {
		p.Least = 0.1
	}
	if p.Window <= 0 {
		p.Window = 10
	}
	if p.Else <= 0 {
		p.Else = 3
	}
	return p
}

// find is the latest strict local peak from one token back to another, or -1.
func (p Peak) find(r *Record, from, to int, least float64) int {
	for i := from; i >= max(to, 0); i-- {
		score, ok := r.Score(p.Monitor, i)
		next, okNext := r.Score(p.Monitor, i+1)
		before, okBefore := r.Score(p.Monitor, i-1)
		if ok && okNext && score >= least && score > next && (i == 0 || okBefore && score > before) {
			return i
		}
	}
	return -1
}

var _ = [...]Point{Fixed(0), Onset{}, Crossing{}, Beginning{}, Highest{}, Peak{}}
