package eval

import (
	"context"
	"testing"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer/extract"
)

// TestNanoCareful runs the whole harness on nano-chat with few pairs and few
// answers: the vector must turn a coin's toss into working that is shown, and
// a random one must not. 32 of 40 come by chance once in ten thousand.
func TestNanoCareful(t *testing.T) {
	if testing.Short() {
		t.Skip("fits a vector on nano-chat")
	}
	path, err := nano.WriteChat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := llamatest.Library(t)
	o := Options{Methods: []extract.Method{extract.Guarded}, Windows: []extract.Window{extract.Rows(-1, 4)}, Seeds: 1, Now: time.Now, Say: func(s string) { t.Log(s) }}
	if err := (Nano{Train: 24, Choose: 16, Test: 40, Quick: true}).Fill(&o); err != nil {
		t.Fatal(err)
	}
	o.Axes, o.Neutral.Choose, o.Neutral.Test = o.Axes[:1], o.Neutral.Choose[:8], o.Neutral.Test[:8]
	o.Open = func(context.Context) (engine.Engine, error) {
		return l.Open(path, llamacpp.Options{CPUOnly: true, Threads: 1, MaxSequences: 35, Cells: 32 * 512})
	}
	o.Render = func(info *engine.Info) (extract.Render, error) {
		p, err := chat.NewPrompter(info, chat.Options{})
		if err != nil {
			return nil, err
		}
		return rendering(p), nil
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out := r.Outcomes[0]
	base, fit, random := out.row("base"), out.row("palrs-guarded"), out.row("random")
	t.Logf("base %+v\nfit %+v %+v\nrandom %+v", base, fit, fit.Fit, random)
	if fit.Shown.Mean < 32.0/40 || fit.Right.Mean < base.Right.Mean+0.15 || fit.KL > 2*o.MaxKL+0.1 {
		t.Errorf("the careful vector shows it in %s, right %s, KL %.3f; unsteered %s, right %s", fit.Shown, fit.Right, fit.KL, base.Shown, base.Right)
	}
	if d := random.Shown.Mean - base.Shown.Mean; d > 0.25 || d < -0.25 {
		t.Errorf("a random vector moves %s to %s", base.Shown, random.Shown)
	}
}
