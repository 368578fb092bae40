package engine

import (
	"context"

	"github.com/trimtab/trimtab/decode"
)

// Generator is the smaller contract for back ends that only stream text, such
// as remote servers: they give neither logits nor activations per step. It is
// safe for concurrent use.
type Generator interface {
	// GeneratorInfo describes the server's model.
	GeneratorInfo() *GeneratorInfo
	// Generate sends the prompt and calls emit for every piece of the answer,
	// in order, on the calling goroutine. An error from emit stops the
	// generation and is returned. A stream that breaks off is an error,
	// never a short answer.
	Generate(ctx context.Context, p Prompt, emit func(Piece) error) (Finish, error)
	Close() error
}

// GeneratorInfo says what a [Generator] offers.
type GeneratorInfo struct {
	Name     string
	Backend  string
	Context  int // 0 when unknown
	Logprobs int // alternatives per token that the server reports; 0 for none
}

// Prompt is one request to a [Generator]: either Text, sent raw, or Messages.
type Prompt struct {
	Text      string
	Messages  []Message
	MaxTokens int
	Stop      []string
	Sampling  map[string]float64 // by the server's own names, for example "temperature"
	Seed      *uint64
}

// Message is one turn of a chat.
type Message struct {
	Role    string // "system", "user", "assistant" or "tool"
	Content string
}

// Piece is a part of a streamed answer.
type Piece struct {
	Text     string
	Logprobs []TokenLogprob // empty unless the server sends them
}

// TokenLogprob is one token of a piece with the natural logarithm of its
// probability, and the alternatives that the server listed.
type TokenLogprob struct {
	Text    string
	Token   decode.Token // -1 when the server does not say
	Logprob float64
	Top     []TokenLogprob
}

// Finish says why a generation ended, in the words of the OpenAI API: "stop",
// "length" or "content_filter".
type Finish struct {
	Reason           string
	PromptTokens     int
	CompletionTokens int
}
