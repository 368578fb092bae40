package reach

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/monitortest"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

func recorderInfo() *engine.Info {
	return &engine.Info{Hash: "h", Arch: "llama", Template: "x", Layers: 6, Width: 3,
		Caps: engine.Caps{Capture: func(s steer.Site) error {
			if s.Layer == 2 {
				return engine.Unsupported("capture", "not here")
			}
			return nil
		}}}
}

func TestDefaultSites(t *testing.T) {
	for _, c := range []struct {
		layers int
		want   []int
	}{{6, []int{3, 5}}, {24, []int{15, 23}}, {1, []int{0}}, {2, []int{1}}, {32, []int{20, 31}}} {
		var got []int
		for _, s := range DefaultSites(c.layers) {
			got = append(got, s.Layer)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d layers: %s", c.layers, diff)
		}
	}
}

// A tape after a random walk holds what a tape of the kept tokens holds.
func TestTapeWalk(t *testing.T) {
	const seed = 4
	r := rand.New(rand.NewPCG(seed, 0))
	rec, err := NewRecorder(recorderInfo(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		token decode.Token
		rows  map[int][]float32
	}
	show := func(w monitors.Watcher, s step) {
		t.Helper()
		_, err := w.Observe(t.Context(), &monitors.Observation{Token: s.token, Activation: func(at steer.Site) ([]float32, error) { return s.rows[at.Layer], nil }})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		tape, fresh := rec.Tape("p"), rec.Tape("p")
		w := tape.Monitor().Start()
		var kept []step
		for range 40 {
			if n := r.IntN(6); n < 3 && n <= len(kept) {
				if err := w.Rewind(n); err != nil {
					t.Fatal(err)
				}
				kept = kept[:len(kept)-n]
			}
			s := step{decode.Token(r.IntN(99)), map[int][]float32{}}
			for _, l := range []int{3, 5} {
				s.rows[l] = []float32{float32(r.NormFloat64()), 1e-3, 70000 * float32(r.IntN(2))}
			}
			show(w, s)
			kept = append(kept, s)
		}
		f := fresh.Monitor().Start()
		for _, s := range kept {
			show(f, s)
		}
		got, err1 := tape.Take()
		want, err2 := fresh.Take()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		d := rec.Data()
		d.Trajectories = []Trajectory{got}
		if err := d.Check(false); err != nil {
			t.Fatal(err)
		}
		if x := d.Row(&got, 5, 1)[0]; math.Abs(float64(x-kept[5].rows[5][0])) > 2e-3 {
			t.Errorf("row 5 holds %v, the state was %v", x, kept[5].rows[5][0])
		}
	}
}

func TestTapeContract(t *testing.T) {
	rec, err := NewRecorder(recorderInfo(), []steer.Site{site3}, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := rec.Tape("p").Monitor()
	m.Start = func() monitors.Watcher { return rec.Tape("p").Monitor().Start() } // a tape is for one session
	monitortest.Run(t, m, monitortest.Options{Next: drawn, Quiet: true})
}

func TestRecorderFaults(t *testing.T) {
	info := recorderInfo()
	for _, c := range []struct {
		sites []steer.Site
		want  string
	}{
		{[]steer.Site{{Layer: 2}}, "not supported"}, {[]steer.Site{{Layer: 6}}, "layers 0 to 5"},
		{[]steer.Site{{Layer: 1}, {Layer: 1}}, "is there twice"}, {[]steer.Site{{Layer: -1}}, "no site"},
		{make([]steer.Site, 9), "9 sites"},
	} {
		if _, err := NewRecorder(info, c.sites, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.sites, err, c.want)
		}
	}
	rec, err := NewRecorder(info, []steer.Site{site3}, 50) // two rows of 20 bytes
	if err != nil {
		t.Fatal(err)
	}
	tape := rec.Tape("p")
	if _, err := tape.Take(); err == nil {
		t.Error("an empty tape was taken")
	}
	w := tape.Monitor().Start()
	see := func(w monitors.Watcher) error {
		_, err := w.Observe(context.Background(), observe(0, 1))
		return err
	}
	if err := errors.Join(see(w), see(w)); err != nil {
		t.Error(err)
	}
	if err := see(w); err == nil || !strings.Contains(err.Error(), "memory is full") {
		t.Errorf("the third row: %v", err)
	}
	if err := w.Rewind(3); err == nil {
		t.Error("rewound more than there was")
	}
	if err := see(tape.Monitor().Start()); err == nil || !strings.Contains(err.Error(), "another session") {
		t.Errorf("a second session: %v", err)
	}
}
