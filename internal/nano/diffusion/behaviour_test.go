package diffusion_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/internal/nano/diffusion"
	"github.com/trimtab/trimtab/runtime/engine"
)

var (
	reportPath = flag.String("report", "", "write the accuracy of the shipped weights to this file")
	reportSize = flag.Int("samples", 300, "puzzles of each task in the report")
)

// quickSize is the sample of the ordinary test: puzzles of each task.
const quickSize = 30

// measure solves n held-out puzzles of every task named and judges the answers.
func measure(t *testing.T, tasks []diffusion.Task, n int, steps ...int) *diffusion.Tally {
	s, ctx := solverOn(t, shipped(t)), context.Background()
	var tally diffusion.Tally
	for _, task := range tasks {
		probes, err := diffusion.Probes(task, chat.Test, 7, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range probes {
			for _, k := range steps {
				answer, err := s.solve(ctx, p, k)
				if err != nil {
					t.Fatal(err)
				}
				tally.Add(p, k, answer)
			}
		}
	}
	return &tally
}

// TestShippedBehaviour measures a small sample and fails if the weights no
// longer show what is promised: an outcome this far off would come by chance
// once in ten thousand.
func TestShippedBehaviour(t *testing.T) {
	if *reportPath != "" {
		t.Skip("the report is measured instead")
	}
	var tasks []diffusion.Task
	for _, p := range diffusion.Promises() {
		tasks = append(tasks, p.Task)
	}
	tally := measure(t, tasks, quickSize, 2, 4, 16)
	for _, p := range diffusion.Promises() {
		many := tally.Rate(p.Task, 16)
		t.Logf("%s: %d of %d in 16 steps", p.Task, many.Solved, many.Of)
		if atMost(many.Solved, many.Of, p.Many) < 1e-4 {
			t.Errorf("%s: %.3f solved in 16 steps, promised at least %.2f", p.Task, many.Share(), p.Many)
		}
		for _, steps := range []int{2, 4} {
			few := tally.Rate(p.Task, steps)
			if atMost(few.Of-few.Solved, few.Of, 1-p.Few) < 1e-4 {
				t.Errorf("%s: %.3f solved in %d steps, promised at most %.2f", p.Task, few.Share(), steps, p.Few)
			}
		}
	}
}

// atMost is the probability of at most k successes in n trials of probability p,
// 0 < p < 1.
func atMost(k, n int, p float64) float64 {
	sum, one := 0.0, math.Pow(1-p, float64(n))
	for i := range k + 1 {
		sum += one
		one *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return sum
}

// TestReport writes the table of accuracies by steps when -report names a file.
func TestReport(t *testing.T) {
	if *reportPath == "" {
		t.Skip("no -report given")
	}
	tally := measure(t, diffusion.Tasks(), *reportSize, 1, 2, 4, 8, 16)
	text := fmt.Sprintf("# nano-diffusion: measured accuracy by steps\n\nWritten by `go test ./internal/nano/diffusion -run Report "+
		"-samples %d -report FILE`: the shipped file (%d bytes)\nthrough llama.cpp, held-out puzzles (seed 7). In every step the most "+
		"confident of the masked cells are revealed,\ngreedily, equally many each time, and stay. Shares of solved puzzles with 95 %% "+
		"intervals (Wilson).\n\n%s", *reportSize, len(nano.Diffusion()), tally)
	if err := os.WriteFile(*reportPath, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSolveKeepsGivenCells(t *testing.T) {
	s, ctx := solverOn(t, shipped(t)), context.Background()
	full := diffusion.Puzzle{Task: diffusion.Echo, Text: "abcdefghabcdefgh"}
	if got, err := s.solve(ctx, full, 4); err != nil || got != full.Text {
		t.Errorf("a puzzle without blanks became %q, error %v", got, err)
	}
	open := diffusion.Puzzle{Task: diffusion.Echo, Text: "abcd____________"}
	if got, err := s.solve(ctx, open, 0); err != nil || got != "abcd" {
		t.Errorf("no steps turned the puzzle into %q, error %v", got, err)
	}
	if got, err := s.solve(ctx, open, 1); err != nil || got[:4] != "abcd" || len(got) != len(open.Text) {
		t.Errorf("one step turned the puzzle into %q, error %v", got, err)
	}
	if _, err := s.solve(ctx, diffusion.Puzzle{Task: "chess", Text: "_"}, 1); err == nil {
		t.Error("a task that is no token of the model was accepted")
	}
}

func TestSolverNeedsCanvas(t *testing.T) {
	path, err := nano.WriteChat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, path, llamacpp.Options{})
	if _, err := newSolver(e); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("a chat model was accepted, error %v", err)
	}
}
