package runtime

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// blockTokens is the grain of the prefix cache: shorter agreements are not
// worth a sequence.
const blockTokens = 32

// cacheKey says under which plan rows were made.
type cacheKey struct {
	plan uint64
	// bare: rows before this one were made under no plan, whatever plan says.
	bare int
	// answer: rows of an answer are what the same tokens in a prompt would be.
	answer bool
}

// unsteered is the key of rows made under no plan.
var unsteered = cacheKey{bare: math.MaxInt, answer: true}

// keyOf is the key of rows made under a plan. Rows of a prompt agree when the
// plans do the same to prompts. A plan that counts rows from the prompt's end
// does something else to every length, so that the length is part of its key.
func keyOf(p *steer.Plan, promptLen int) cacheKey {
	k := cacheKey{plan: p.PromptFingerprint(), bare: math.MaxInt, answer: true}
	counts := false
	for i := range p.Len() {
		iv := p.At(i)
		if iv.Scale == 0 {
			continue
		}
		w := &iv.When
		k.answer = k.answer && !iv.Positional()
		counts = counts || w.From != nil && *w.From < 0 || w.To != nil && *w.To < 0
	}
	if k.plan == 0 {
		return k
	}
	if k.bare = untouched(p, promptLen); counts {
		k.plan = hashBlock(k.plan, uint64(promptLen), nil)
	}
	return k
}

// from is the key of rows of which the first so many were made under no plan.
func (k cacheKey) from(row int) cacheKey {
	k.bare = max(k.bare, row)
	return k
}

// serves reports how many of n equal rows under k are what they would be under
// another key.
func (k cacheKey) serves(want cacheKey, n int) int {
	if k.plan == want.plan && k.bare == want.bare {
		return n
	}
	return min(n, k.bare, want.bare)
}

// hashBlocks hashes every whole block of tokens, each with all before it.
func hashBlocks(tokens []decode.Token) []uint64 {
	sums := make([]uint64, 0, len(tokens)/blockTokens)
	before := uint64(0)
	for len(tokens) >= blockTokens {
		before = hashBlock(0, before, tokens[:blockTokens])
		sums = append(sums, before)
		tokens = tokens[blockTokens:]
	}
	return sums
}

func hashBlock(key, before uint64, tokens []decode.Token) uint64 {
	b := make([]byte, 0, 16+4*blockTokens)
	b = binary.LittleEndian.AppendUint64(b, key)
	b = binary.LittleEndian.AppendUint64(b, before)
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return xxhash.Sum64(b)
}

// entry is a finished sequence that is kept for its rows.
type entry struct {
	seq    engine.Sequence
	key    cacheKey
	tokens []decode.Token // what the first rows were made from
	blocks []uint64
}

// agree is how many leading tokens are the same. Equal hashes
// only say where to look: the tokens themselves decide, so that no collision
// can show one user another's text.
func agree(aBlocks []uint64, a []decode.Token, bBlocks []uint64, b []decode.Token) int {
	n := 0
	for n < min(len(aBlocks), len(bBlocks)) && aBlocks[n] == bBlocks[n] {
		n++
	}
	if n == 0 {
		return 0
	}
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	if same < blockTokens {
		return 0
	}
	return same
}

// prefixCache holds entries, the least recently used first.
type prefixCache struct {
	entries []*entry
	rows    int // of all sequences
}

// best is the entry with the longest agreement.
func (c *prefixCache) best(w *want) (e *entry, n int) {
	for _, other := range c.entries {
		m := other.key.serves(w.key, agree(other.blocks, other.tokens, w.blocks, w.prompt))
		if m >= n && m > 0 {
			e, n = other, m
		}
	}
	return e, n
}

// touch makes e the most recently used.
func (c *prefixCache) touch(e *entry) {
	i := slices.Index(c.entries, e)
	c.entries = append(slices.Delete(c.entries, i, i+1), e)
}

// remove takes e out; its sequence is then the caller's.
func (c *prefixCache) remove(e *entry) engine.Sequence {
	i := slices.Index(c.entries, e)
	c.entries = slices.Delete(c.entries, i, i+1)
	c.rows -= e.seq.Len()
	return e.seq
}

// add keeps e, and drops what e makes superfluous or e itself.
func (c *prefixCache) add(e *entry) (drop []engine.Sequence) {
	for _, other := range slices.Clone(c.entries) {
		n := agree(other.blocks, other.tokens, e.blocks, e.tokens)
		if other.key.serves(e.key, n) < n {
			continue
		}
		if n == len(e.tokens) {
			c.touch(other)
			return append(drop, e.seq)
		}
		if n == len(other.tokens) {
			drop = append(drop, c.remove(other))
		}
	}
	c.entries = append(c.entries, e)
	c.rows += e.seq.Len()
	return drop
}
