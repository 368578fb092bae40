package probe

import (
	"fmt"
	"math"
	"slices"
)

// Evaluate measures the probe on examples with labels, without smoothing. It
// needs examples of both classes, as wide as the probe.
func (p *Probe) Evaluate(examples []Example) (*Metrics, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("probe %q: %w", p.Name, err)
	}
	positives, negatives, err := checkExamples(examples)
	if err == nil && len(examples[0].Row) != p.Width() {
		err = fmt.Errorf("rows of %d values, the probe reads %d", len(examples[0].Row), p.Width())
	}
	if err != nil {
		return nil, fmt.Errorf("probe %q: evaluate: %w", p.Name, err)
	}
	m := &Metrics{Positives: positives, Negatives: negatives}
	work := p.Value.NewWork()
	scores := make([]scored, len(examples))
	right, hits, flagged := 0, 0, 0
	for i, e := range examples {
		z := p.Value.At(e.Row, work)
		if z-z != 0 {
			return nil, fmt.Errorf("probe %q: example %d: the logit is %v", p.Name, i, z)
		}
		scores[i] = scored{z, e.Positive}
		flag := sigmoid(z) >= p.Threshold
		if flag == e.Positive {
			right++
		}
		if flag {
			flagged++
		}
		if flag && e.Positive {
			hits++
		}
		if e.Positive {
			z = -z
		}
		m.LogLoss += (max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))) / float64(len(examples))
	}
	m.AUROC = auroc(scores, positives, negatives)
	m.Accuracy = float64(right) / float64(len(examples))
	m.F1 = 2 * float64(hits) / float64(flagged+positives)
	return m, nil
}

type scored struct {
	score    float64
	positive bool
}

// auroc is the share of pairs in the right order, by ranks (Mann and Whitney
// 1947); equal scores share their mean rank.
func auroc(s []scored, positives, negatives int) float64 {
	slices.SortFunc(s, func(a, b scored) int {
		switch {
		case a.score < b.score:
			return -1
		case a.score > b.score:
			return 1
		}
		return 0
	})
	sum := 0.0
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j].score == s[i].score {
			j++
		}
		rank := float64(i+j+1) / 2 // mean of i+1 to j
		for _, e := range s[i:j] {
			if e.positive {
				sum += rank
			}
		}
		i = j
	}
	p := float64(positives)
	return (sum - p*(p+1)/2) / (p * float64(negatives))
}
