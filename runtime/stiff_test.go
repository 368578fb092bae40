package runtime

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// stiff is an engine whose sequences say that they rewind, and then do not.
type stiff struct{ engine.Engine }

var errStiff = errors.New("stiff")

type stiffSequence struct{ engine.Sequence }

func (stiffSequence) Rewind(int) error { return errStiff }

func (e stiff) NewSequence(ctx context.Context, o engine.Origin) (engine.Sequence, error) {
	s, err := e.Engine.NewSequence(ctx, o)
	return stiffSequence{s}, err
}

func (e stiff) Forward(ctx context.Context, feeds []engine.Feed) error {
	feeds = slices.Clone(feeds)
	for i := range feeds {
		feeds[i].Seq = feeds[i].Seq.(stiffSequence).Sequence
	}
	return e.Engine.Forward(ctx, feeds)
}

// A session that fails while the next batch is put together, and leaves it
// empty, must still reach its reader.
func TestRewindFailsAlone(t *testing.T) {
	f := fake(t, enginetest.FakeConfig{})
	synctest.Test(t, func(t *testing.T) {
		s, err := NewScheduler(stiff{f}, Options{NoCache: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait() // the driver sleeps: no old signal wakes it later
		again := judge(func(st *Step) (Action, error) {
			if st.Index == 4 {
				return Action{Kind: Rewind, Rewind: 2}, nil
			}
			return Action{}, nil
		})
		st, err := s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 20, HoldBack: 8, Policy: again})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r := st.Result(); r == nil {
			t.Error("the session has failed, its reader still waits")
		}
		st.Close() // ends the wait below where the fault is back
		if _, err := st.Wait(context.Background()); !errors.Is(err, errStiff) {
			t.Errorf("error %v, want that of the rewind", err)
		}
	})
}
