package main

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

const (
	lanes       = 32  // answers that are written side by side
	answerRows  = 100 // tokens of the longest answer
	temperature = 0.8
)

// lane is one answer that is being written.
type lane struct {
	engine.Feed // what comes next; without tokens the answer is complete
	text        []byte
	r           *rand.Rand
}

// write has the model answer prompts under a plan. see, if not nil, is shown
// every lane after each step, with the captured sites.
func (g *guard) write(ctx context.Context, prompts [][]engine.Message, plan *steer.Plan, capture []steer.Site, see func(*lane) error) (texts []string, err error) {
	for len(prompts) > 0 {
		n := min(len(prompts), lanes)
		more, err := g.abreast(ctx, prompts[:n], plan, capture, see)
		if err != nil {
			return nil, err
		}
		texts, prompts = append(texts, more...), prompts[n:]
	}
	return texts, nil
}

// abreast writes as many answers as there are lanes.
func (g *guard) abreast(ctx context.Context, prompts [][]engine.Message, plan *steer.Plan, capture []steer.Site, see func(*lane) error) (texts []string, err error) {
	var group []*lane
	for i, turns := range prompts {
		l, err := g.open(ctx, turns, plan)
		if err != nil {
			return nil, err
		}
		defer l.Seq.Close()
		l.Capture, l.r = capture, rand.New(rand.NewPCG(1, uint64(i)))
		group = append(group, l)
	}
	for range answerRows {
		if err := g.step(ctx, group, see); err != nil {
			return nil, err
		}
	}
	for _, l := range group {
		texts = append(texts, string(l.text))
	}
	return texts, nil
}

func (g *guard) open(ctx context.Context, turns []engine.Message, plan *steer.Plan) (*lane, error) {
	tokens, err := g.render(turns, true)
	if err != nil {
		return nil, err
	}
	s, err := g.e.NewSequence(ctx, engine.Origin{})
	if err != nil {
		return nil, err
	}
	if err := s.Steer(plan); err != nil {
		s.Close()
		return nil, err
	}
	return &lane{Feed: engine.Feed{Seq: s, Tokens: tokens, PromptLen: len(tokens)}}, nil
}

// step adds a token to every answer that is not complete.
func (g *guard) step(ctx context.Context, group []*lane, see func(*lane) error) error {
	var feeds []engine.Feed
	for _, l := range group {
		if len(l.Tokens) > 0 {
			feeds = append(feeds, l.Feed)
		}
	}
	if len(feeds) == 0 {
		return nil
	}
	if err := g.e.Forward(ctx, feeds); err != nil {
		return err
	}
	for _, l := range group {
		if len(l.Tokens) == 0 {
			continue
		}
		if see != nil {
			if err := see(l); err != nil {
				return err
			}
		}
		if err := g.extend(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) extend(ctx context.Context, l *lane) error {
	warm, err := decode.NewTemperature(temperature)
	if err != nil {
		return err
	}
	row := slices.Clone(l.Seq.Logits())
	if err := warm.Process(ctx, row); err != nil {
		return err
	}
	t, err := decode.Categorical{}.Sample(row, l.r)
	if err != nil {
		return err
	}
	l.Tokens = nil
	if tok := g.e.Info().Tokenizer; tok.Kind(t)&engine.KindEnd == 0 {
		l.Tokens, l.text = []decode.Token{t}, tok.AppendPiece(l.text, t)
	}
	return nil
}
