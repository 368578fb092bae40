package extract

import (
	"context"
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// speak continues every prompt with the likeliest tokens, at most length of
// them, unsteered, and returns prompt and answer as one text. The token that
// ends an answer is part of it.
func speak(ctx context.Context, e engine.Engine, prompts [][]decode.Token, length int) ([]*answered, error) {
	info := e.Info()
	out := make([]*answered, len(prompts))
	for i, p := range prompts {
		out[i] = &answered{tokens: append([]decode.Token(nil), p...), from: len(p), to: len(p)}
	}
	for at := 0; at < len(out); {
		n := fitting(info, out[at:], length)
		if err := speakGroup(ctx, e, out[at:at+n], length); err != nil {
			return nil, err
		}
		at += n
	}
	return out, nil
}

// fitting is how many of the texts can grow by length tokens at once, at least
// one: the engine itself refuses a text that is too long.
func fitting(info *engine.Info, list []*answered, length int) int {
	n, rows := 0, 0
	for n < len(list) && n < min(info.MaxSequences, maxLanes) {
		if rows += len(list[n].tokens) + length; n > 0 && rows > info.Cells {
			break
		}
		n++
	}
	return max(n, 1)
}

func speakGroup(ctx context.Context, e engine.Engine, group []*answered, length int) (err error) {
	seqs := make([]engine.Sequence, len(group))
	defer func() {
		for _, s := range seqs {
			if s != nil {
				s.Close()
			}
		}
	}()
	for i := range seqs {
		if seqs[i], err = e.NewSequence(ctx, engine.Origin{}); err != nil {
			return err
		}
	}
	ended := make([]bool, len(group))
	for range length {
		var feeds []engine.Feed
		var fed []int
		for i, a := range group {
			if !ended[i] {
				feeds = append(feeds, engine.Feed{Seq: seqs[i], Tokens: a.tokens[seqs[i].Len():], PromptLen: a.from})
				fed = append(fed, i)
			}
		}
		if len(feeds) == 0 {
			return nil
		}
		if err := e.Forward(ctx, feeds); err != nil {
			return err
		}
		for _, i := range fed {
			t := best(seqs[i].Logits())
			group[i].tokens = append(group[i].tokens, t)
			group[i].to++
			ended[i] = e.Info().Tokenizer.Kind(t)&engine.KindEnd != 0
		}
	}
	return nil
}

func best(row decode.Logits) decode.Token {
	at := 0
	for i, x := range row {
		if x > row[at] {
			at = i
		}
	}
	return decode.Token(at)
}

// validText drops bytes that are no UTF-8.
func validText(b []byte) string { return strings.ToValidUTF8(string(b), "") }
