package chat

import (
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Prompter turns conversations into prompts for one model: the model's
// template, or [ChatML] where it has none, its start and end tokens, and its
// control words, which no message can forge. It is immutable and safe for
// concurrent use while the model is open.
type Prompter struct {
	tok      engine.Tokenizer
	template *Template
	control  []string
	bos, eos string
}

// NewPrompter reads what it needs from the model, once: finding the control
// words takes a look at the whole vocabulary.
func NewPrompter(info *engine.Info, o Options) (*Prompter, error) {
	if info.Tokenizer == nil {
		return nil, engine.Unsupported("chat", "the model has no tokenizer")
	}
	source := info.Template
	if source == "" {
		source = ChatML
	}
	t, err := Parse(source, o)
	if err != nil {
		return nil, fmt.Errorf("chat template of %s: %w", info.Name, err)
	}
	p := &Prompter{tok: info.Tokenizer, template: t, control: ControlWords(info.Tokenizer, info.Vocab)}
	sp := info.Tokenizer.Specials()
	p.bos, p.eos = p.word(sp.BOS), p.word(sp.EOS)
	return p, nil
}

func (p *Prompter) word(t decode.Token) string {
	if t < 0 {
		return ""
	}
	return p.tok.Text(t)
}

// Prompt renders and encodes a conversation. The start and end tokens of the
// input are filled in where it gives none.
func (p *Prompter) Prompt(in Input) ([]decode.Token, error) {
	if in.BOS == "" {
		in.BOS = p.bos
	}
	if in.EOS == "" {
		in.EOS = p.eos
	}
	parts, err := p.template.RenderParts(in, p.control)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return Encode(p.tok, parts, true)
}

// Ask is Prompt for the usual case: the messages so far, and the header of the
// answer that is to follow.
func (p *Prompter) Ask(messages ...Message) ([]decode.Token, error) {
	return p.Prompt(Input{Messages: messages, AddGenerationPrompt: true})
}
