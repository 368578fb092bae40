// Package chat turns a conversation into the prompt that a model expects, with
// the chat template that the model file carries (GGUF key
// tokenizer.chat_template).
//
// The model for the reader's head is a mail merge: [Parse] reads the template
// once, [Template.Render] fills in the messages. Prompts that hold text from
// users go through [Template.RenderParts] and [Encode] instead, so that a
// "<|im_start|>" typed by a user stays letters and never becomes a control
// token. Models without a template take [ChatML].
//
// Templates are programs from strangers. They run on a budget of work, nesting
// and output, load no files, read no clock but the one they are given, and
// cannot change the conversation.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trimtab/trimtab/runtime/engine/chat/internal/jinja"
)

// ChatML is the template for models that have none: the turns are framed by
// <|im_start|> and <|im_end|>, as many models were tuned with.
const ChatML = `{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + (message.content or '') + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %}`

// Options bound a template. Zero fields take the defaults.
type Options struct {
	MaxSource int // longest source in bytes; default and most 1 MiB
	MaxOutput int // longest prompt in bytes; default 4 MiB
	MaxWork   int // nodes evaluated + bytes/4 handled per render; default 30 million: at worst 6 s and 140 MB were measured
}

// Input is one conversation and the switches of a prompt. Render only reads it.
type Input struct {
	Messages []Message
	// Tools are tool definitions, JSON objects in the form that the model's
	// template wants (mostly OpenAI's). Their keys keep their order.
	Tools []json.RawMessage

	AddGenerationPrompt bool  // end with the header of an assistant turn
	Thinking            *bool // enable_thinking (and its older name thinking); nil leaves both undefined

	BOS, EOS string // the texts of the start and end tokens, as the vocabulary spells them

	// Extra are further variables of the template, such as reasoning_effort.
	// They win over the variables that the other fields set.
	Extra map[string]json.RawMessage

	// Now is the clock of strftime_now. Without it the function is undefined,
	// which templates test for.
	Now func() time.Time
}

// Message is one turn.
type Message struct {
	Role      string // "system", "user", "assistant", "tool" or what else the template knows
	Content   string
	NoContent bool   // content is null rather than "", as in turns that only call tools
	Reasoning string // the thinking that came before Content, without its marks
	ToolCalls []ToolCall
	// ToolCallID and Name tell which call a "tool" turn answers.
	ToolCallID string
	Name       string
}

// ToolCall is a call that the assistant made.
type ToolCall struct {
	ID        string
	Name      string
	Arguments json.RawMessage // a JSON object, or a JSON string for templates that want one
}

// Template is a parsed chat template. It is immutable and safe for concurrent
// use.
type Template struct {
	tmpl      *jinja.Template
	limits    jinja.Limits
	reasoning string // the key under which the template looks for Message.Reasoning
}

// RaisedError is the template's own refusal, from raise_exception: for example
// that roles must alternate. It is meant for whoever wrote the conversation.
type RaisedError struct {
	Message string
	Line    int // of the template, from 1
}

func (e *RaisedError) Error() string {
	return fmt.Sprintf("chat template refuses the conversation: %s", e.Message)
}

// ErrLimit is wrapped by errors of templates that need more work, nesting or
// output than [Options] allow.
var ErrLimit = errors.New("chat template exceeds its limits")

// Parse reads a template. Errors name the line.
func Parse(source string, o Options) (*Template, error) {
	if o.MaxSource > 0 && len(source) > o.MaxSource {
		return nil, fmt.Errorf("parse chat template: %d bytes, the most is %d", len(source), o.MaxSource)
	}
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("parse chat template: %w", err)
	}
	limits := jinja.Limits{Work: o.MaxWork, Output: o.MaxOutput}
	return &Template{tmpl: t, limits: limits, reasoning: reasoningKey(source)}, nil
}

// reasoningKey finds the field that a template reads thinking from: most say
// reasoning_content, gpt-oss thinking, some reasoning.
func reasoningKey(source string) string {
	for _, key := range []string{"reasoning_content", "thinking", "reasoning"} {
		for _, use := range []string{"." + key, "'" + key + "'", `"` + key + `"`} {
			if strings.Contains(source, use) {
				return key
			}
		}
	}
	return "reasoning_content"
}

// Render makes the prompt as one text. Errors: [*RaisedError], errors wrapping
// [ErrLimit], and faults of the template or the input, with the line.
//
// The answer does not tell the template's control words from the same letters
// in a message; use [Template.RenderParts] where messages are not trusted.
func (t *Template) Render(in Input) (string, error) { return t.render(&in, nil) }

func (t *Template) render(in *Input, marks *jinja.Marks) (string, error) {
	vars, err := t.variables(in, marks)
	if err != nil {
		return "", fmt.Errorf("chat template input: %w", err)
	}
	text, err := t.tmpl.Render(jinja.Input{Vars: vars, Marks: marks, Now: in.Now, Limits: t.limits})
	if err != nil {
		return "", renderError(err)
	}
	return text, nil
}

func renderError(err error) error {
	var raised *jinja.Raised
	if errors.As(err, &raised) {
		return &RaisedError{Message: raised.Message, Line: raised.Line}
	}
	var limit *jinja.LimitError
	if errors.As(err, &limit) {
		return fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return fmt.Errorf("render chat template: %w", err)
}
