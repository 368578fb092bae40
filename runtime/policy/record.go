package policy

import (
	"math"

	"github.com/trimtab/trimtab/runtime"
)

// Record remembers what the monitors said of each visible token, and where
// lines and sentences begin, so that a rule can look back. It follows the
// steps it is shown: what a rewind took away is forgotten, exactly. Its memory
// grows with the text, 8 bytes a token and monitor. The zero value is empty;
// it serves one session.
type Record struct {
	streams []stream
	texts   []scan // after each token
}

// stream is one monitor's scores. A token without one has NaN.
type stream struct {
	monitor string
	scores  []float64
}

// See takes in a candidate, behind the tokens committed so far. Steps that were
// not shown leave tokens without scores.
func (r *Record) See(s *runtime.Step) {
	for i := range r.streams {
		r.streams[i].scores = fit(r.streams[i].scores, s.Index)
	}
	for i := range s.Verdicts {
		st := r.stream(s.Verdicts[i].Monitor)
		st.scores = append(fit(st.scores, s.Index), s.Verdicts[i].Score)
	}
	for len(r.texts) < s.Index {
		r.texts = append(r.texts, scan{})
	}
	r.texts = r.texts[:s.Index]
	before := scan{state: atStart, line: true}
	if s.Index > 0 {
		before = r.texts[s.Index-1]
	}
	r.texts = append(r.texts, before.token(s.Piece))
}

// fit makes a stream n tokens long.
func fit(scores []float64, n int) []float64 {
	for len(scores) < n {
		scores = append(scores, math.NaN())
	}
	return scores[:n]
}

func (r *Record) stream(monitor string) *stream {
	for i := range r.streams {
		if r.streams[i].monitor == monitor {
			return &r.streams[i]
		}
	}
	r.streams = append(r.streams, stream{monitor: monitor})
	return &r.streams[len(r.streams)-1]
}

// Len is the number of tokens, the candidate included.
func (r *Record) Len() int { return len(r.texts) }

// Score is what a monitor said of token i, counted from the text's start; false
// when it said nothing.
func (r *Record) Score(monitor string, i int) (float64, bool) {
	for j := range r.streams {
		st := &r.streams[j]
		if st.monitor == monitor && i >= 0 && i < len(st.scores) && !math.IsNaN(st.scores[i]) {
			return st.scores[i], true
		}
	}
	return 0, false
}

// Line reports whether a line begins in token i.
func (r *Record) Line(i int) bool { return i >= 0 && i < len(r.texts) && r.texts[i].newLine }

// Sentence reports whether a sentence, or a line, begins in token i. Sentences
// are told by their punctuation, so an abbreviation can look like an end.
func (r *Record) Sentence(i int) bool { return i >= 0 && i < len(r.texts) && r.texts[i].newSentence }
