package nano_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/nano"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
)

// lanes is how many answers are sampled in one batch.
const lanes = 32

// maxAnswer is longer than any answer of the corpus.
const maxAnswer = 140

// open loads a model file for sampling.
func open(t testing.TB, path string, o llamacpp.Options) *llamacpp.Engine {
	t.Helper()
	o.CPUOnly, o.MaxSequences, o.Cells = true, lanes, lanes*512
	return llamatest.Open(t, path, o)
}

// shipped writes the embedded nano-chat to a file and opens it.
func shipped(t testing.TB) *llamacpp.Engine {
	t.Helper()
	path, err := nano.WriteChat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return open(t, path, llamacpp.Options{})
}

// speaker answers prompts with an engine.
type speaker struct {
	t           testing.TB
	engine      *llamacpp.Engine
	template    *chat.Template
	control     []string
	temperature float64 // 0 is greedy
	seed        uint64
}

func newSpeaker(t testing.TB, e *llamacpp.Engine, temperature float64, seed uint64) *speaker {
	t.Helper()
	tmpl, err := chat.Parse(e.Info().Template, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &speaker{t, e, tmpl, chat.ControlWords(e.Info().Tokenizer, e.Info().Vocab), temperature, seed}
}

// prompt renders and encodes a conversation.
func (s *speaker) prompt(ms []corpus.Message) []decode.Token {
	in := chat.Input{AddGenerationPrompt: true}
	for _, m := range ms {
		in.Messages = append(in.Messages, chat.Message{Role: string(m.Role), Content: m.Content})
	}
	parts, err := s.template.RenderParts(in, s.control)
	if err != nil {
		s.t.Fatal(err)
	}
	tokens, err := chat.Encode(s.engine.Info().Tokenizer, parts, true)
	if err != nil {
		s.t.Fatal(err)
	}
	return tokens
}

// lane is one answer being sampled.
type lane struct {
	seq    engine.Sequence
	feed   []decode.Token
	answer []decode.Token
	r      *rand.Rand
	done   bool
}

// answers samples an answer to every prompt, lanes at a time; the result is the
// answers' tokens. Answer i depends on the seed and on i alone.
func (s *speaker) answers(prompts [][]corpus.Message) [][]decode.Token {
	var out [][]decode.Token
	for len(out) < len(prompts) {
		n := min(lanes, len(prompts)-len(out))
		group := make([]*lane, n)
		for i := range group {
			at := len(out) + i
			group[i] = &lane{feed: s.prompt(prompts[at]), r: rand.New(rand.NewPCG(s.seed, uint64(at)))}
		}
		s.speak(group)
		for _, l := range group {
			out = append(out, l.answer)
		}
	}
	return out
}

// speak samples one group to the end.
func (s *speaker) speak(group []*lane) {
	ctx := context.Background()
	for _, l := range group {
		seq, err := s.engine.NewSequence(ctx, engine.Origin{})
		if err != nil {
			s.t.Fatal(err)
		}
		defer seq.Close()
		l.seq = seq
	}
	for range maxAnswer {
		var feeds []engine.Feed
		for _, l := range group {
			if !l.done {
				feeds = append(feeds, engine.Feed{Seq: l.seq, Tokens: l.feed})
			}
		}
		if len(feeds) == 0 {
			return
		}
		if err := s.engine.Forward(ctx, feeds); err != nil {
			s.t.Fatal(err)
		}
		for _, l := range group {
			s.advance(l)
		}
	}
}

// advance samples the next token of a lane.
func (s *speaker) advance(l *lane) {
	if l.done {
		return
	}
	tok := s.sample(l.seq.Logits(), l.r)
	if s.engine.Info().Tokenizer.Kind(tok)&engine.KindEnd != 0 {
		l.done = true
		return
	}
	l.answer = append(l.answer, tok)
	l.feed = []decode.Token{tok}
}

// sample draws from the softmax at the speaker's temperature.
func (s *speaker) sample(logits decode.Logits, r *rand.Rand) decode.Token {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	if s.temperature == 0 {
		return decode.Token(best)
	}
	weights, sum := make([]float64, len(logits)), 0.0
	for i, x := range logits {
		weights[i] = math.Exp(float64(x-logits[best]) / s.temperature)
		sum += weights[i]
	}
	u := r.Float64() * sum
	for i, w := range weights {
		if u -= w; u < 0 {
			return decode.Token(i)
		}
	}
	return decode.Token(best)
}

// pieces turns tokens into their texts, and the whole text.
func (s *speaker) pieces(tokens []decode.Token) (list []string, text string) {
	for _, t := range tokens {
		p := string(s.engine.Info().Tokenizer.AppendPiece(nil, t))
		list = append(list, p)
		text += p
	}
	return list, text
}

// logits returns the row that follows a prompt.
func (s *speaker) logits(prompt []decode.Token) decode.Logits {
	ctx := context.Background()
	seq, err := s.engine.NewSequence(ctx, engine.Origin{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer seq.Close()
	if err := s.engine.Forward(ctx, []engine.Feed{{Seq: seq, Tokens: prompt}}); err != nil {
		s.t.Fatal(err)
	}
	return append(decode.Logits(nil), seq.Logits()...)
}
