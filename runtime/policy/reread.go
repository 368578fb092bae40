package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
)

// Scorer says after the fact how each of the last tokens of a text was written,
// the latest last; tokens are the whole text, prompt included. The answer must
// depend on the arguments only, so that traces replay. *sharpness.Scorer is one.
type Scorer interface {
	Scores(ctx context.Context, tokens []decode.Token, last int) ([]float64, error)
}

// Defaults of [Reread].
const (
	DefaultReread = 32
	sharpness     = "sharpness"
)

// Reread has the last tokens looked at again when a flag is raised, for a
// [Point] to choose by what no monitor could afford to score all along. Its
// scores are in the [Record] under the monitor's name from then on, up to the
// place that is rewound to. It is data and may be shared by sessions with one
// prompt, if the scorer may.
//
// The scorer is shown the prompt and the visible text. Hidden guidance and what
// plans did to the model are not in them.
type Reread struct {
	Scorer  Scorer
	Prompt  []decode.Token // runtime.Config.Prompt
	Monitor string         // name of the stream; "" for "sharpness"
	Last    int            // tokens, the candidate included; 0 for 32
}

// check reports every fault, and fills in the defaults.
func (q Reread) check() (*Reread, error) {
	var faults []error
	if q.Scorer == nil {
		faults = append(faults, errors.New("reread: no scorer"))
	}
	if q.Last < 0 {
		faults = append(faults, fmt.Errorf("reread: the last %d tokens, must not be negative", q.Last))
	}
	if q.Monitor == "" {
		q.Monitor = sharpness
	}
	if q.Last == 0 {
		q.Last = DefaultReread
	}
	return &q, errors.Join(faults...)
}

// look has the last tokens scored, the candidate included. A token that nothing
// stands before has no score.
func (q *Reread) look(ctx context.Context, r *Record, s *runtime.Step) error {
	text := slices.Concat(q.Prompt, s.Tokens, []decode.Token{s.Token})
	last := min(q.Last, s.Index+1, len(text)-1)
	if last < 1 {
		return nil
	}
	scores, err := q.Scorer.Scores(ctx, text, last)
	if err == nil && len(scores) != last {
		err = fmt.Errorf("%d scores for %d tokens", len(scores), last)
	}
	if err != nil {
		return fmt.Errorf("reread the last %d tokens: %w", last, err)
	}
	r.Note(q.Monitor, s.Index+1-last, scores)
	return nil
}

// Note takes in scores of tokens that were seen before: scores[0] is of token
// from. Scores that are there already are replaced; those of tokens that were
// not seen are left out.
func (r *Record) Note(monitor string, from int, scores []float64) {
	st := r.stream(monitor)
	for i, score := range scores {
		if at := from + i; at >= 0 && at < r.Len() {
			for len(st.scores) <= at {
				st.scores = append(st.scores, math.NaN())
			}
			st.scores[at] = score
		}
	}
}
