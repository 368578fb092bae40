package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Bounds of a request.
const (
	MaxMessages = 10_000
	MaxID       = 1024 // bytes of its JSON form
)

// ID names a request: a JSON string or integer, kept as it was written.
type ID = json.RawMessage

// Request is one line of the input: an id and either a prompt or messages.
type Request struct {
	ID       ID
	Prompt   string    // raw text, when Messages is nil
	Messages []Message // a chat
}

// Message is one turn of a chat.
type Message struct{ Role, Content string }

// wireRequest is the JSON form. Pointers tell what is missing.
type wireRequest struct {
	ID       json.RawMessage `json:"id"`
	Prompt   *string         `json:"prompt"`
	Messages []wireMessage   `json:"messages"`
}

type wireMessage struct {
	Role    *string `json:"role"`
	Content *string `json:"content"`
}

// request checks the JSON form. When only the rest is wrong the id is returned
// as well, so that an error record can carry it.
func (w *wireRequest) request() (*Request, error) {
	if err := checkID(w.ID); err != nil {
		return nil, err
	}
	r := &Request{ID: w.ID}
	switch {
	case (w.Prompt == nil) == (w.Messages == nil):
		return r, errors.New(`a request has either "prompt" or "messages"`)
	case w.Prompt != nil && *w.Prompt == "":
		return r, errors.New("the prompt is empty")
	case w.Prompt != nil:
		r.Prompt = *w.Prompt
		return r, nil
	case len(w.Messages) == 0 || len(w.Messages) > MaxMessages:
		return r, fmt.Errorf("%d messages, must be between 1 and %d", len(w.Messages), MaxMessages)
	}
	for i, m := range w.Messages {
		if m.Role == nil || m.Content == nil || *m.Role == "" {
			return r, fmt.Errorf(`message %d needs "role" and "content", both texts`, i+1)
		}
		r.Messages = append(r.Messages, Message{Role: *m.Role, Content: *m.Content})
	}
	return r, nil
}

func checkID(id json.RawMessage) error {
	if len(id) == 0 || string(id) == "null" {
		return errors.New(`"id" is missing`)
	}
	if len(id) > MaxID {
		return fmt.Errorf(`"id" has %d bytes, the limit is %d`, len(id), MaxID)
	}
	if id[0] == '"' {
		return nil
	}
	if _, err := strconv.ParseInt(string(id), 10, 64); err != nil {
		return errors.New(`"id" must be a text or an integer`)
	}
	return nil
}

// Answer is what became of a request.
type Answer struct {
	Text         string  `json:"text"`
	Tokens       []int32 `json:"tokens"`
	FinishReason string  `json:"finish_reason"`
	Usage        Usage   `json:"usage"`
	Timings      Timings `json:"timings"`

	Shadow *Divergence `json:"shadow,omitempty"` // nil when nothing was measured

	Monitors      []Monitor `json:"monitors,omitempty"`
	Interventions *int      `json:"interventions,omitempty"` // candidates that the policy rejected; nil without monitors
}

// Monitor is what one monitor said of the answer, rejected candidates included.
type Monitor struct {
	Name    string     `json:"name"`
	Highest *float64   `json:"highest,omitempty"` // score; nil when it never spoke
	Flags   int        `json:"flags"`
	First   *int       `json:"first,omitempty"`  // tokens before the first flag
	Scores  []*float64 `json:"scores,omitempty"` // beside the tokens, nil unless asked for
}

// Divergence is how far steering moved the model: KL(steered || unsteered).
type Divergence struct {
	KL        []float64 `json:"kl"` // nats, beside the tokens
	Mean      float64   `json:"mean"`
	Max       float64   `json:"max"`
	Total     float64   `json:"total"`
	Worst     int       `json:"worst"`      // the token with Max, -1 for none
	LeastDose float64   `json:"least_dose"` // factor on the dose
	Lowered   int       `json:"lowered"`    // tokens at a lower dose
	Unsteered int       `json:"unsteered"`  // of those, drawn from the unsteered row
	Tries     int       `json:"tries"`      // rows that were fed again or given up
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// Timings are in milliseconds. FirstToken and Total count from when the
// request left the queue.
type Timings struct {
	Queued     float64 `json:"queued_ms"`
	FirstToken float64 `json:"first_token_ms"`
	Total      float64 `json:"total_ms"`
}

// Fault says what was wrong with a line.
type Fault struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// Record is one line of the output: an answer or a fault. The id is null when
// the line had none that could be read.
type Record struct {
	ID ID
	*Answer
	Error *Fault
}

// encode gives the record as one line, the id first.
func (r Record) encode() ([]byte, error) {
	if r.ID == nil {
		r.ID = ID("null")
	}
	r.Answer = r.Answer.filled()
	return encodeLine(struct {
		ID ID `json:"id"`
		*Answer
		Error *Fault `json:"error,omitempty"`
	}(r))
}

// Line is the answer alone as one line of JSON, without an id.
func (a *Answer) Line() ([]byte, error) { return encodeLine(a.filled()) }

// filled writes no tokens as [], not as null.
func (a *Answer) filled() *Answer {
	if a == nil || a.Tokens != nil {
		return a
	}
	c := *a
	c.Tokens = []int32{}
	return &c
}

// encodeLine keeps <, > and & readable.
func encodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode a record: %w", err)
	}
	return b.Bytes(), nil
}
