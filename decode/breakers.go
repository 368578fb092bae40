package decode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of [NewBreakers]: texts, bytes per text, and tokens of a tail. Longer
// tails are cut, which only makes the breaker act a little more often.
const (
	MaxBreakers     = 64
	MaxBreakerBytes = 40
	maxBreakerTail  = 20
)

// Breakers are the token sequences at which [DRY] stops to follow a
// repetition, such as line ends and quotes. Immutable and safe for concurrent
// use: make them once per model. Nil has none.
type Breakers struct {
	texts  []string
	single map[Token]bool      // tokens that break on their own
	tails  map[Token][][]Token // head -> the tokens that must follow it
}

// TokenBreakers makes breakers from token sequences. An empty sequence or a
// negative token is an error; all faults are reported at once.
func TokenBreakers(sequences ...[]Token) (*Breakers, error) {
	b := emptyBreakers(nil)
	var faults []error
	for i, s := range sequences {
		if len(s) == 0 || slices.Min(s) < 0 {
			faults = append(faults, fmt.Errorf("breaker %d is %v: want at least one token, none negative", i, s))
			continue
		}
		b.add(s[0], s[1:])
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return b, nil
}

// Vocab is what [NewBreakers] and [Params.Chain] ask about a vocabulary.
type Vocab struct {
	// Size is the width of a row.
	Size int
	// End are the tokens that end an answer.
	End []Token
	// Piece appends the bytes that a token stands for. Encode turns plain text
	// into tokens. Both are needed for textual breakers only.
	Piece  func(dst []byte, t Token) []byte
	Encode func(text string) ([]Token, error)
	// Breakers, if they were made from the texts that the parameters ask for,
	// save making them again.
	Breakers *Breakers
}

// NewBreakers finds every way in which tokens can spell the texts. A token
// that contains a text breaks on its own. A token whose end is the beginning of
// a text breaks when followed by the tokens of the rest. One scan of the
// vocabulary per text: about 10 ms for 150,000 tokens and four texts.
func NewBreakers(v Vocab, texts []string) (*Breakers, error) {
	b := emptyBreakers(slices.Clone(texts))
	if len(texts) == 0 {
		return b, nil
	}
	if err := checkBreakerTexts(texts); err != nil {
		return nil, err
	}
	if v.Piece == nil || v.Encode == nil || v.Size > MaxVocab {
		return nil, errors.New("breaker texts need a vocabulary with Size, Piece and Encode")
	}
	rests := map[string][]Token{}
	var piece []byte
	for t := range Token(max(v.Size, 0)) {
		piece = v.Piece(piece[:0], t)
		for _, text := range texts {
			if err := b.spell(v, rests, t, string(piece), text); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func checkBreakerTexts(texts []string) error {
	var faults []error
	if len(texts) > MaxBreakers {
		faults = append(faults, fmt.Errorf("%d breakers, the limit is %d", len(texts), MaxBreakers))
	}
	for i, s := range texts {
		if s == "" || len(s) > MaxBreakerBytes {
			faults = append(faults, fmt.Errorf("breaker %d (%q) has %d bytes, want 1 to %d", i, s, len(s), MaxBreakerBytes))
		}
	}
	return errors.Join(faults...)
}

// spell adds the ways in which t can begin or contain the text.
func (b *Breakers) spell(v Vocab, rests map[string][]Token, t Token, piece, text string) error {
	if strings.Contains(piece, text) {
		b.add(t, nil)
		return nil
	}
	for n := min(len(piece), len(text)-1); n > 0; n-- {
		if !strings.HasSuffix(piece, text[:n]) {
			continue
		}
		tail, err := encodeRest(v, rests, text[n:])
		if err != nil {
			return err
		}
		b.add(t, tail)
	}
	return nil
}

// encodeRest tokenises the end of a breaker once.
func encodeRest(v Vocab, rests map[string][]Token, rest string) ([]Token, error) {
	if tail, ok := rests[rest]; ok {
		return tail, nil
	}
	tail, err := v.Encode(rest)
	if err != nil {
		return nil, fmt.Errorf("encode %q, the end of a breaker: %w", rest, err)
	}
	tail = slices.Clone(tail[:min(len(tail), maxBreakerTail)])
	rests[rest] = tail
	return tail, nil
}

func emptyBreakers(texts []string) *Breakers {
	return &Breakers{texts: texts, single: map[Token]bool{}, tails: map[Token][][]Token{}}
}

func (b *Breakers) add(head Token, tail []Token) {
	if len(tail) == 0 {
		b.single[head] = true
		return
	}
	for _, known := range b.tails[head] {
		if slices.Equal(known, tail) {
			return
		}
	}
	b.tails[head] = append(b.tails[head], slices.Clone(tail))
}

// alone reports whether t breaks on its own.
func (b *Breakers) alone(t Token) bool { return b != nil && b.single[t] }

// match is the number of tokens after past[i] that complete the longest
// breaker beginning there, or -1 when none does.
func (b *Breakers) match(past []Token, i int) int {
	if b == nil {
		return -1
	}
	longest := -1
	if b.single[past[i]] {
		longest = 0
	}
	for _, tail := range b.tails[past[i]] {
		after := past[i+1:]
		if len(tail) > longest && len(tail) <= len(after) && slices.Equal(tail, after[:len(tail)]) {
			longest = len(tail)
		}
	}
	return longest
}
