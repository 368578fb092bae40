package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// conversation is one entry of testdata/conversations.json; judge.py reads
// the same file.
type conversation struct {
	ID       string
	Messages []struct {
		Role, Content, Reasoning, Name string
		NoContent                      bool   `json:"no_content"`
		ToolCallID                     string `json:"tool_call_id"`
		ToolCalls                      []struct {
			ID, Name  string
			Arguments json.RawMessage
		} `json:"tool_calls"`
	}
	Tools               []json.RawMessage
	AddGenerationPrompt bool `json:"add_generation_prompt"`
	Thinking            *bool
	Extra               map[string]json.RawMessage
}

// clock is the fixed clock of judge.py.
func clock() time.Time { return time.Date(2026, 3, 7, 9, 5, 4, 0, time.UTC) }

func (c *conversation) input() Input {
	in := Input{
		Tools: c.Tools, AddGenerationPrompt: c.AddGenerationPrompt, Thinking: c.Thinking,
		BOS: "<s>", EOS: "</s>", Extra: c.Extra, Now: clock,
	}
	for _, m := range c.Messages {
		msg := Message{
			Role: m.Role, Content: m.Content, NoContent: m.NoContent, Reasoning: m.Reasoning,
			ToolCallID: m.ToolCallID, Name: m.Name,
		}
		for _, t := range m.ToolCalls {
			msg.ToolCalls = append(msg.ToolCalls, ToolCall{ID: t.ID, Name: t.Name, Arguments: t.Arguments})
		}
		in.Messages = append(in.Messages, msg)
	}
	return in
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func conversations(t testing.TB) []conversation {
	t.Helper()
	var cs []conversation
	readJSON(t, filepath.Join("testdata", "conversations.json"), &cs)
	return cs
}

// verdict is what the outside judge says about one template and conversation.
type verdict struct {
	Text   *string
	Raised *string
	Error  *string
}
