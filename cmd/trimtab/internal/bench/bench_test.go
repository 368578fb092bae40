package bench

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/internal/randmodel"
)

// TestPair feeds known durations: ratios are per round, the first round does
// not count, and the order alternates.
func TestPair(t *testing.T) {
	var order strings.Builder
	side := func(name string, times ...time.Duration) work {
		return func(_ context.Context, round int) (time.Duration, error) {
			order.WriteString(name)
			return times[round] * time.Second, nil
		}
	}
	row, err := pair(context.Background(), "x", 100, 3, side("a", 99, 10, 10, 10), side("b", 1, 10, 20, 5))
	if err != nil {
		t.Fatal(err)
	}
	want := Row{Name: "x", Tokens: 100, Bare: 10, Ours: 10, Ratio: 1, Min: 0.5, Max: 2, Rounds: 3}
	if row != want || order.String() != "abbaabba" {
		t.Errorf("got %+v in order %s", row, &order)
	}
	broken := func(context.Context, int) (time.Duration, error) { return 0, errors.New("no power") }
	if _, err := pair(context.Background(), "x", 1, 1, side("a", 1, 1), broken); err == nil || !strings.Contains(err.Error(), "x, round 0: no power") {
		t.Errorf("a failing side gave %v", err)
	}
}

// tiny writes a random model.
func tiny(t *testing.T) string {
	t.Helper()
	spec, err := randmodel.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := randmodel.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDecode runs every comparison on a tiny model, and holds the allocations
// that the project promises.
func TestDecode(t *testing.T) {
	e := llamatest.Open(t, tiny(t), llamacpp.Options{})
	d := Decode{Engine: e, Rounds: 1, Tokens: 32, Prompt: 4, Prefill: 700, Batches: []int{3}, Now: time.Now, Note: func(string) {}}
	rep, err := d.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) != 3 || rep.Rows[0].Ratio <= 0 || rep.Rows[2].Tokens != 700 {
		t.Errorf("the rows are %+v", rep.Rows)
	}
	if !raceOn && (rep.Engine != 0 || rep.Session > 5) {
		t.Errorf("heap objects per token: engine %v, want 0; session %v, want at most 5", rep.Engine, rep.Session)
	}
	var out strings.Builder
	if err := rep.Print(&out); err != nil || !strings.Contains(out.String(), "scheduler, 3 sequences") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}

// TestSteer runs every comparison of steering on a tiny model, and holds that
// hooks make no garbage.
func TestSteer(t *testing.T) {
	path, o := tiny(t), llamacpp.Options{Threads: 1}
	d := Steer{Engine: llamatest.Open(t, path, o), Twin: llamatest.Open(t, path, o), Rounds: 1, Tokens: 2, Batches: []int{1, 4},
		Switches: 2, Now: time.Now, Note: func(string) {}}
	rep, err := d.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Sections) != 7 || len(rep.Switches) != 5 {
		t.Fatalf("%d sections, %d switches", len(rep.Sections), len(rep.Switches))
	}
	for _, s := range rep.Sections {
		for _, x := range s.Rows {
			if !(x.Ratio > 0) || x.Rounds != 1 {
				t.Errorf("%s: %+v", s.Title, x)
			}
		}
		if len(s.Rows) < 2 {
			t.Errorf("%s has %d rows", s.Title, len(s.Rows))
		}
	}
	if !raceOn && rep.Objects != 0 {
		t.Errorf("%v heap objects per token with every block hooked, want 0", rep.Objects)
	}
	var text, table strings.Builder
	if err := errors.Join(rep.Print(&text), rep.Markdown(&table)); err != nil || !strings.Contains(text.String(), "rotate") || !strings.Contains(table.String(), "| from none to a plan |") {
		t.Errorf("%v\n%s\n%s", err, &text, &table)
	}
}

// TestMonitors takes every measurement on a tiny model.
func TestMonitors(t *testing.T) {
	path, o := tiny(t), llamacpp.Options{Threads: 1}
	d := Monitors{Engine: llamatest.Open(t, path, o), Twin: llamatest.Open(t, path, o), Rounds: 1, Tokens: 4, Now: time.Now, Note: func(string) {}}
	rep, err := d.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Sections) != 3 || len(rep.Sections[0].Rows) != 2 || len(rep.Sections[1].Rows) != 2 || len(rep.Kernels) != 4 {
		t.Fatalf("the report is %+v", rep)
	}
	for _, k := range rep.Kernels {
		if k.Median <= 0 {
			t.Errorf("%s takes %v", k.Name, k.Median)
		}
	}
	var text, table strings.Builder
	if err := errors.Join(rep.Print(&text), rep.Markdown(&table)); err != nil || !strings.Contains(text.String(), "8 linear probes") || !strings.Contains(table.String(), "| 8 linear probes") {
		t.Errorf("%v\n%s\n%s", err, &text, &table)
	}
}
