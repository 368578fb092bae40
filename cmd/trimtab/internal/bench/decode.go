package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Decode are the comparisons of "trimtab bench decode" on one engine.
type Decode struct {
	Engine  *llamacpp.Engine
	Rounds  int // paired rounds, at least 5 for a result worth keeping
	Tokens  int // generated per sequence and run
	Prompt  int // prompt tokens of the generation runs
	Prefill int // prompt tokens of the prefill run; 0 leaves it out
	Batches []int
	Now     func() time.Time
	Note    func(string) // progress, for people
}

// Report is what was measured.
type Report struct {
	Model   string  `json:"model"`
	Backend string  `json:"backend"`
	Rows    []Row   `json:"rows"`
	Engine  float64 `json:"engine_allocations_per_token"`
	Session float64 `json:"session_allocations_per_token"`
}

// Run makes every comparison.
func (d *Decode) Run(ctx context.Context) (*Report, error) {
	bare, err := d.Engine.Bare()
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	info := d.Engine.Info()
	rep := &Report{Model: info.Name, Backend: info.Backend}
	add := func(name string, tokens int, a, b work) error {
		d.Note(fmt.Sprintf("%s: %d paired rounds of %d tokens", name, d.Rounds, tokens))
		row, err := pair(ctx, name, tokens, d.Rounds, a, b)
		if err == nil {
			rep.Rows = append(rep.Rows, row)
			d.Note(fmt.Sprintf("  ratio %.3f (%.3f to %.3f)", row.Ratio, row.Min, row.Max))
		}
		return err
	}
	if err := add("session, 1 sequence", d.Tokens, d.bare(bare, 1), d.session); err != nil {
		return rep, err
	}
	for _, n := range d.Batches {
		if err := add(fmt.Sprintf("scheduler, %d sequences", n), n*d.Tokens, d.bare(bare, n), d.scheduler(n)); err != nil {
			return rep, err
		}
	}
	if d.Prefill > 0 {
		if err := add("session, prefill", d.Prefill, d.barePrefill(bare), d.prefill); err != nil {
			return rep, err
		}
	}
	d.Note("allocations")
	return rep, d.allocations(ctx, rep)
}

// prompt returns the same n tokens for the same round and sequence, and others
// for every other, so that no cache can help.
func (d *Decode) prompt(round, seq, n int) []decode.Token {
	r := rand.New(rand.NewPCG(uint64(round), uint64(seq)))
	out := make([]decode.Token, n)
	for i := range out {
		out[i] = decode.Token(r.IntN(d.Engine.Info().Vocab))
	}
	return out
}

// bare generates with llama_decode and an argmax, n sequences in one batch.
func (d *Decode) bare(b *llamacpp.Bare, n int) work {
	return func(_ context.Context, round int) (time.Duration, error) {
		b.Reset()
		prompts, next := make([][]decode.Token, n), make([]decode.Token, n)
		for i := range prompts {
			prompts[i] = d.prompt(round, i, d.Prompt)
		}
		start := d.Now()
		if err := b.Start(prompts, next); err != nil {
			return 0, err
		}
		for k := range d.Tokens - 1 {
			if err := b.Step(d.Prompt+k, next); err != nil {
				return 0, err
			}
		}
		return d.Now().Sub(start), nil
	}
}

func (d *Decode) config(round, seq int) runtime.Config {
	return runtime.Config{
		Engine: d.Engine, Prompt: d.prompt(round, seq, d.Prompt),
		MaxTokens: d.Tokens, End: []decode.Token{},
	}
}

func (d *Decode) session(ctx context.Context, round int) (time.Duration, error) {
	cfg := d.config(round, 0)
	start := d.Now()
	s, err := runtime.NewSession(ctx, cfg)
	if err != nil {
		return 0, err
	}
	res, err := s.Run(ctx)
	took := d.Now().Sub(start)
	return took, errors.Join(err, s.Close(), d.complete(res))
}

func (d *Decode) complete(res *runtime.Result) error {
	if res == nil || res.Usage.CompletionTokens != d.Tokens {
		return fmt.Errorf("a run made %d tokens, want %d", res.Usage.CompletionTokens, d.Tokens)
	}
	return nil
}

// scheduler generates n texts at once.
func (d *Decode) scheduler(n int) work {
	return func(ctx context.Context, round int) (time.Duration, error) {
		sched, err := runtime.NewScheduler(d.Engine, runtime.Options{Slots: n, NoCache: true})
		if err != nil {
			return 0, err
		}
		start := d.Now()
		streams := make([]*runtime.Stream, n)
		for i := range streams {
			if streams[i], err = sched.Submit(ctx, d.config(round, i)); err != nil {
				return 0, errors.Join(err, sched.Close())
			}
		}
		for _, st := range streams {
			res, err := st.Wait(ctx)
			if err = errors.Join(err, d.complete(res)); err != nil {
				return 0, errors.Join(err, sched.Close())
			}
		}
		took := d.Now().Sub(start)
		return took, sched.Close()
	}
}

func (d *Decode) barePrefill(b *llamacpp.Bare) work {
	return func(_ context.Context, round int) (time.Duration, error) {
		b.Reset()
		start := d.Now()
		_, err := b.Prefill(0, 0, d.prompt(round, 0, d.Prefill))
		return d.Now().Sub(start), err
	}
}

func (d *Decode) prefill(ctx context.Context, round int) (time.Duration, error) {
	cfg := d.config(round, 0)
	cfg.Prompt, cfg.MaxTokens = d.prompt(round, 0, d.Prefill), 1
	start := d.Now()
	s, err := runtime.NewSession(ctx, cfg)
	if err != nil {
		return 0, err
	}
	_, err = s.Run(ctx)
	took := d.Now().Sub(start)
	return took, errors.Join(err, s.Close())
}

// allocations counts heap objects per token in the steady state, of the engine
// alone and of a session around it.
func (d *Decode) allocations(ctx context.Context, rep *Report) (err error) {
	if rep.Engine, err = d.engineAllocations(ctx); err != nil {
		return err
	}
	rep.Session, err = d.sessionAllocations(ctx)
	return err
}

// steps is how many tokens allocations are counted over, three times in one
// sequence: the built-in model has room for 512.
func (d *Decode) steps() int { return min(d.Tokens, 128) }

func (d *Decode) engineAllocations(ctx context.Context) (float64, error) {
	seq, err := d.Engine.NewSequence(ctx, engine.Origin{})
	if err != nil {
		return 0, err
	}
	defer seq.Close()
	feeds := []engine.Feed{{Seq: seq, Tokens: d.prompt(0, 0, 1)}}
	return mallocs(d.steps(), func() error { return d.Engine.Forward(ctx, feeds) })
}

func (d *Decode) sessionAllocations(ctx context.Context) (float64, error) {
	cfg := d.config(0, 0)
	cfg.MaxTokens = 3*d.steps() + 16
	s, err := runtime.NewSession(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return mallocs(d.steps(), func() error {
		_, err := s.Next(ctx)
		return err
	})
}

// mallocs runs step a few times to warm up, then three times n times, and returns
// the heap objects that one of those made, in the thriftiest of the three: the
// runtime's own goroutines make some now and then.
func mallocs(n int, step func() error) (float64, error) {
	for range 8 {
		if err := step(); err != nil {
			return 0, err
		}
	}
	least := math.Inf(1)
	for range 3 {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		for range n {
			if err := step(); err != nil {
				return 0, err
			}
		}
		goruntime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/float64(n))
	}
	return least, nil
}
