package decode

import (
	"fmt"
	"iter"
	"math/bits"

	"github.com/bits-and-blooms/bitset"
)

// TokenSet is a set of tokens of one vocabulary, as a bit per token. Its size
// is fixed, so a token from outside cannot make it grow. A set may be read from
// several goroutines while nobody changes it.
type TokenSet struct {
	bits  *bitset.BitSet
	vocab int
}

// MaxVocab bounds the vocabulary of a set and of [Params.Chain]; the widest
// published models have about 262,000 tokens.
const MaxVocab = 1 << 24

// NewTokenSet returns the set of the given tokens out of 0 to vocab-1. A token
// outside of these, or a vocab outside of 0 to [MaxVocab], is an error.
func NewTokenSet(vocab int, tokens ...Token) (*TokenSet, error) {
	if vocab < 0 || vocab > MaxVocab {
		return nil, fmt.Errorf("token set over %d tokens, want 0 to %d", vocab, MaxVocab)
	}
	s := &TokenSet{bits: bitset.New(uint(vocab)), vocab: vocab}
	for _, t := range tokens {
		if err := s.Add(t); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Vocab is the number of tokens that could be in the set.
func (s *TokenSet) Vocab() int { return s.vocab }

// Len is the number of tokens in the set.
func (s *TokenSet) Len() int { return int(s.bits.Count()) }

// Has reports whether t is in the set; a token outside the vocabulary is not.
func (s *TokenSet) Has(t Token) bool { return t >= 0 && int(t) < s.vocab && s.bits.Test(uint(t)) }

// Add puts t into the set. A token outside the vocabulary is an error.
func (s *TokenSet) Add(t Token) error {
	if t < 0 || int(t) >= s.vocab {
		return fmt.Errorf("token %d is outside the vocabulary of %d", t, s.vocab)
	}
	s.bits.Set(uint(t))
	return nil
}

// Remove takes t out of the set, if it is in it.
func (s *TokenSet) Remove(t Token) {
	if s.Has(t) {
		s.bits.Clear(uint(t))
	}
}

// Clear takes all tokens out.
func (s *TokenSet) Clear() { s.bits.ClearAll() }

// Invert replaces the set by the tokens of the vocabulary that were not in it.
func (s *TokenSet) Invert() { s.bits.FlipRange(0, uint(s.vocab)) }

// Union adds the tokens of o. The vocabularies must be equal.
func (s *TokenSet) Union(o *TokenSet) error {
	return s.combine(o, s.bits.InPlaceUnion)
}

// Intersect removes the tokens that are not in o. The vocabularies must be equal.
func (s *TokenSet) Intersect(o *TokenSet) error {
	return s.combine(o, s.bits.InPlaceIntersection)
}

func (s *TokenSet) combine(o *TokenSet, op func(*bitset.BitSet)) error {
	if s.vocab != o.vocab {
		return fmt.Errorf("token sets over %d and %d tokens do not go together", s.vocab, o.vocab)
	}
	op(o.bits)
	return nil
}

// Clone returns an independent copy.
func (s *TokenSet) Clone() *TokenSet { return &TokenSet{bits: s.bits.Clone(), vocab: s.vocab} }

// Equal reports whether both sets hold the same tokens of equal vocabularies.
func (s *TokenSet) Equal(o *TokenSet) bool { return s.vocab == o.vocab && s.bits.Equal(o.bits) }

// All yields the tokens in ascending order.
func (s *TokenSet) All() iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for i, ok := s.bits.NextSet(0); ok; i, ok = s.bits.NextSet(i + 1) {
			if !yield(Token(i)) {
				return
			}
		}
	}
}

// Restrict bans every token of the row that is not in the set. The row must be
// as wide as the vocabulary. Cost: a word per 64 tokens, plus the bans.
func (s *TokenSet) Restrict(l Logits) error { return s.mask(l, ^uint64(0)) }

// Ban bans every token of the row that is in the set, under the same rules.
func (s *TokenSet) Ban(l Logits) error { return s.mask(l, 0) }

// mask bans the tokens whose bit, xor that of flip, is 1.
func (s *TokenSet) mask(l Logits, flip uint64) error {
	if len(l) != s.vocab {
		return fmt.Errorf("row is %d wide, the token set %d", len(l), s.vocab)
	}
	for i, w := range s.bits.Words() {
		w ^= flip
		row := l[min(i*64, len(l)):min(i*64+64, len(l))]
		if w == ^uint64(0) {
			banAll(row)
			continue
		}
		for ; w != 0; w &= w - 1 {
			if b := bits.TrailingZeros64(w); b < len(row) {
				row[b] = negInf
			}
		}
	}
	return nil
}
