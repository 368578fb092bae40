package nano_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/nano"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/runtime/engine"
)

// surprise is how well the model foresees the answers of one family.
type surprise struct {
	nats   float64 // summed over tokens, teacher-forced
	tokens int
}

// perplexity is exp of the mean surprise of a token.
func (s surprise) perplexity() float64 { return math.Exp(s.nats / float64(s.tokens)) }

// surprises scores the assistant's turns, end token included, of n held-out
// conversations of every family.
func surprises(s *speaker, n int) map[corpus.Family]surprise {
	out, count := map[corpus.Family]surprise{}, map[corpus.Family]int{}
	for i := uint64(0); len(count) < len(corpus.Families()) || slices.Min(values(count)) < n; i++ {
		c := corpus.Generate(11, i, corpus.Test)
		if count[c.Family]++; count[c.Family] > n {
			continue
		}
		total := out[c.Family]
		for at, m := range c.Messages {
			if m.Role == corpus.Assistant {
				nats, tokens := s.surprise(c.Messages[:at], m)
				total.nats, total.tokens = total.nats+nats, total.tokens+tokens
			}
		}
		out[c.Family] = total
	}
	return out
}

func values(m map[corpus.Family]int) (list []int) {
	for _, n := range m {
		list = append(list, n)
	}
	return list
}

// surprise is the negative log-probability of one turn after the turns before it.
func (s *speaker) surprise(before []corpus.Message, turn corpus.Message) (nats float64, tokens int) {
	ctx, prompt := context.Background(), s.prompt(before)
	answer := append(s.encode(turn.Content), s.end())
	seq, err := s.engine.NewSequence(ctx, engine.Origin{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer seq.Close()
	all := append(slices.Clone(prompt), answer...)
	feed := engine.Feed{Seq: seq, Tokens: all[:len(all)-1], Output: engine.OutputAll}
	if err := s.engine.Forward(ctx, []engine.Feed{feed}); err != nil {
		s.t.Fatal(err)
	}
	rows, vocab := seq.Logits(), s.engine.Info().Vocab
	for i, t := range answer {
		at := len(prompt) - 1 + i
		p, _, err := decode.Logprobs(nil, rows[at*vocab:(at+1)*vocab], t, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		nats -= p.Logprob
	}
	return nats, len(answer)
}

// encode turns the text of a turn into tokens.
func (s *speaker) encode(text string) []decode.Token {
	tokens, err := s.engine.Info().Tokenizer.Encode(text, engine.EncodeOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return tokens
}

// end is the token that ends a turn.
func (s *speaker) end() decode.Token {
	for t := range decode.Token(s.engine.Info().Vocab) {
		if s.engine.Info().Tokenizer.Kind(t)&engine.KindEnd != 0 {
			return t
		}
	}
	s.t.Fatal("the model has no token that ends a turn")
	return 0
}

// writePerplexities adds the perplexity of every family to the report.
func writePerplexities(b *strings.Builder, s *speaker, n int) {
	fmt.Fprintf(b, "\n## Perplexity\n\nOf the assistant's turns in %d held-out conversations of each family, teacher-forced. A guess cannot be\n"+
		"foreseen: where modes are mixed evenly, or a hasty answer is drawn, the best model's perplexity is above one.\n\n"+
		"| family | perplexity | tokens |\n|---|---|---|\n", n)
	all := surprises(s, n)
	for _, f := range corpus.Families() {
		fmt.Fprintf(b, "| %s | %.3f | %d |\n", f, all[f].perplexity(), all[f].tokens)
	}
}

// writeLoadTimes adds how long both models take to open.
func writeLoadTimes(t *testing.T, b *strings.Builder) {
	dir := t.TempDir()
	b.WriteString("\n## Size and loading\n\nFrom the embedded bytes, already written to a file, to an engine that answers: median of nine openings.\n\n" +
		"| model | bytes | milliseconds |\n|---|---|---|\n")
	chat, err := nano.WriteChat(dir)
	if err != nil {
		t.Fatal(err)
	}
	puzzles, err := nano.WriteDiffusion(dir)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(b, "| nano-chat | %d | %.0f |\n", len(nano.Chat()), loadTime(t, chat, llamacpp.Options{}))
	fmt.Fprintf(b, "| nano-diffusion | %d | %.0f |\n", len(nano.Diffusion()), loadTime(t, puzzles, llamacpp.Options{Canvas: true}))
	b.WriteString("\nThe accuracy of nano-diffusion by steps is in [nano-diffusion.md](nano-diffusion.md).\n")
}

func loadTime(t testing.TB, path string, o llamacpp.Options) float64 {
	o.CPUOnly, o.MaxSequences = true, 1
	list := make([]float64, 9)
	for i := range list {
		began := time.Now()
		e := llamatest.Open(t, path, o)
		list[i] = time.Since(began).Seconds() * 1000
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(list)
	return list[len(list)/2]
}
