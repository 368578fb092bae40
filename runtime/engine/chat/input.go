package chat

import (
	"encoding/json"
	"fmt"
	"sort"
	"unicode/utf8"

	"github.com/trimtab/trimtab/runtime/engine/chat/internal/jinja"
)

// builder turns an Input into template values. All texts but the model's own
// (BOS, EOS) are marked.
type builder struct {
	marks     *jinja.Marks
	reasoning string
}

// variables are the names that a template sees; those that Hugging Face
// always passes are there even when they are none.
func (t *Template) variables(in *Input, marks *jinja.Marks) (map[string]any, error) {
	b := &builder{marks, t.reasoning}
	messages := &jinja.List{Items: []any{}}
	for i := range in.Messages {
		m, err := b.message(&in.Messages[i])
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages.Items = append(messages.Items, m)
	}
	tools, err := b.tools(in.Tools)
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(in.BOS) || !utf8.ValidString(in.EOS) {
		return nil, fmt.Errorf("start or end token: not valid UTF-8")
	}
	vars := map[string]any{
		"messages": messages, "tools": tools, "documents": nil,
		"add_generation_prompt": in.AddGenerationPrompt, "bos_token": in.BOS, "eos_token": in.EOS,
	}
	if in.Thinking != nil {
		vars["enable_thinking"], vars["thinking"] = *in.Thinking, *in.Thinking
	}
	return vars, b.extra(vars, in.Extra)
}

func (b *builder) extra(vars map[string]any, extra map[string]json.RawMessage) error {
	names := make([]string, 0, len(extra))
	for name := range extra {
		names = append(names, name)
	}
	sort.Strings(names) // so that of several faults always the same is reported
	for _, name := range names {
		v, err := jinja.FromJSON(extra[name], b.marks)
		if err != nil {
			return fmt.Errorf("variable %q: %w", name, err)
		}
		vars[name] = v
	}
	return nil
}

func (b *builder) tools(defs []json.RawMessage) (any, error) {
	if len(defs) == 0 {
		return nil, nil
	}
	l := &jinja.List{}
	for i, raw := range defs {
		v, err := jinja.FromJSON(raw, b.marks)
		if err != nil {
			return nil, fmt.Errorf("tool %d: %w", i, err)
		}
		l.Items = append(l.Items, v)
	}
	return l, nil
}

// set puts a text into d, unless it is empty and optional.
func (b *builder) set(d *jinja.Dict, key, text string, optional bool) error {
	if text == "" && optional {
		return nil
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s: not valid UTF-8", key)
	}
	d.SetText(nil, key, b.marks.Mark(text))
	return nil
}

func (b *builder) message(m *Message) (*jinja.Dict, error) {
	d := jinja.NewDict()
	if err := b.set(d, "role", m.Role, false); err != nil {
		return nil, err
	}
	if m.NoContent {
		d.SetText(nil, "content", nil)
	} else if err := b.set(d, "content", m.Content, false); err != nil {
		return nil, err
	}
	if err := b.set(d, b.reasoning, m.Reasoning, true); err != nil {
		return nil, err
	}
	if len(m.ToolCalls) > 0 {
		calls, err := b.calls(m.ToolCalls)
		if err != nil {
			return nil, err
		}
		d.SetText(nil, "tool_calls", calls)
	}
	if err := b.set(d, "tool_call_id", m.ToolCallID, true); err != nil {
		return nil, err
	}
	return d, b.set(d, "name", m.Name, true)
}

func (b *builder) calls(calls []ToolCall) (*jinja.List, error) {
	l := &jinja.List{}
	for i := range calls {
		c, err := b.call(&calls[i])
		if err != nil {
			return nil, fmt.Errorf("tool call %d: %w", i, err)
		}
		l.Items = append(l.Items, c)
	}
	return l, nil
}

// call has OpenAI's form: {id, type, function: {name, arguments}}.
func (b *builder) call(c *ToolCall) (*jinja.Dict, error) {
	fn := jinja.NewDict()
	if err := b.set(fn, "name", c.Name, false); err != nil {
		return nil, err
	}
	raw := c.Arguments
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	v, err := jinja.FromJSON(raw, b.marks)
	if err != nil {
		return nil, fmt.Errorf("arguments of %q: %w", c.Name, err)
	}
	fn.SetText(nil, "arguments", v)
	d := jinja.NewDict()
	if err := b.set(d, "id", c.ID, true); err != nil {
		return nil, err
	}
	d.SetText(nil, "type", "function")
	d.SetText(nil, "function", fn)
	return d, nil
}
