// Package bench measures what Trimtab costs on top of llama.cpp.
//
// A number is always a ratio of two ways to do the same work, run in turn in
// one process on one loaded model: machines differ and drift, ratios of
// neighbours hardly do. The median of the rounds is the result, the smallest
// and the largest are its spread.
package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// work does the job once, from scratch, and returns how long the part that
// counts took. round numbers the inputs: both sides get the same.
type work func(ctx context.Context, round int) (time.Duration, error)

// Row is one comparison.
type Row struct {
	Name   string  `json:"name"`
	Tokens int     `json:"tokens"` // of one run
	Bare   float64 `json:"bare_tokens_per_second"`
	Ours   float64 `json:"tokens_per_second"`
	Ratio  float64 `json:"ratio"` // ours to bare, median of the rounds; 1 is no cost
	Min    float64 `json:"ratio_min"`
	Max    float64 `json:"ratio_max"`
	Rounds int     `json:"rounds"`
}

// pair runs bare and ours in turn, after one round of each that does not
// count; the order changes every round, so that neither always comes first.
func pair(ctx context.Context, name string, tokens, rounds int, bare, ours work) (Row, error) {
	row := Row{Name: name, Tokens: tokens, Rounds: rounds}
	var ratios, a, b []float64
	for i := range rounds + 1 {
		x, y, err := both(ctx, i, bare, ours)
		if err != nil {
			return row, fmt.Errorf("%s, round %d: %w", name, i, err)
		}
		if i == 0 {
			continue
		}
		ratios = append(ratios, x.Seconds()/y.Seconds())
		a, b = append(a, float64(tokens)/x.Seconds()), append(b, float64(tokens)/y.Seconds())
	}
	row.Bare, row.Ours, row.Ratio = median(a), median(b), median(ratios)
	row.Min, row.Max = slices.Min(ratios), slices.Max(ratios)
	return row, nil
}

func both(ctx context.Context, round int, bare, ours work) (x, y time.Duration, err error) {
	if round%2 == 0 {
		if x, err = bare(ctx, round); err == nil {
			y, err = ours(ctx, round)
		}
		return x, y, err
	}
	if y, err = ours(ctx, round); err == nil {
		x, err = bare(ctx, round)
	}
	return x, y, err
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
