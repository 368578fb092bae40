// Package extract turns examples of a behaviour into a steering vector that was
// calibrated on the model that will be served.
//
// The model for the reader's head is a small experiment. [Pair]s show the
// behaviour and its opposite for equal prompts. They are dealt into three
// disjoint splits: directions are read from the first ([Read]), layer, place,
// window and dose are chosen on the second by how much they raise
// log p(chosen) - log p(rejected), and the third is touched once, to report the
// effect beside the controls. [Fit] runs all of it; a [Result] holds the vector
// with everything that led to it.
//
// The directions follow PaLRS (arXiv 2509.23982), CAA (arXiv 2312.06681),
// representation engineering (arXiv 2310.01405) and linear probes; [Method]
// says which is which. Nothing here is safe for concurrent use: an engine has
// one driver.
package extract

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Render encodes a conversation with the model's template, and with header the
// opening of the answer that is to follow. It must not let messages forge
// control words; chat.Prompter does it right.
type Render func(turns []engine.Message, header bool) ([]decode.Token, error)

// Pair is a prompt with one answer that shows the behaviour and one that does
// not.
type Pair struct {
	Turns            []engine.Message // the prompt; the assistant speaks next
	Chosen, Rejected string

	// ReadChosen and ReadRejected, where set, replace Turns when states are
	// read, never when answers are scored: see [Contrast].
	ReadChosen, ReadRejected []engine.Message

	Split Split  // where the data set says it itself; empty: dealt by hash
	Key   string // pairs with equal keys share a split; empty: the prompt
}

// Kind is a sort of place in a rendered conversation.
type Kind uint8

// The places that states can be read at. A template writes some tokens after
// every turn; an offset counts them from 0.
const (
	// AnswerEnd: the template's tokens after the answer, with the next answer's
	// header. PaLRS reads here.
	AnswerEnd Kind = iota
	// Echo: the template's tokens after the user's last turn, said once more
	// behind the answer.
	Echo
	// AnswerMean: the mean over the answer's tokens. CAA reads here.
	AnswerMean
	// Shown: what the pair leaves in a later answer. Question, answer and the
	// question once more stand before either of the two answers; the rows of
	// the last answer are read, each as much as it matters there which answer
	// was shown (the divergence of the next token). Both sides read the same
	// words, so the words themselves cancel out. This finds what a model
	// decides late in a sentence.
	Shown
	// PromptEnd: the template's tokens after the user's turn, without any
	// answer; the last is the last prompt token. Only for pairs whose prompts
	// differ.
	PromptEnd
)

var kindNames = [...]string{AnswerEnd: "answer-end", Echo: "echo", AnswerMean: "answer-mean", Shown: "shown", PromptEnd: "prompt-end"}

// whole reports that the kind is one place and counts no offsets.
func (k Kind) whole() bool { return k == AnswerMean || k == Shown }

// Place is one place to read states at.
type Place struct {
	Kind   Kind
	Offset int // 0 for AnswerMean and Shown
}

func (p Place) String() string {
	if int(p.Kind) >= len(kindNames) {
		return fmt.Sprintf("place(%d)", p.Kind)
	}
	if p.Kind.whole() {
		return kindNames[p.Kind]
	}
	return fmt.Sprintf("%s+%d", kindNames[p.Kind], p.Offset)
}

// ParsePlace reads what String wrote, such as "echo+1".
func ParsePlace(s string) (Place, error) {
	name, number, has := strings.Cut(s, "+")
	for k, known := range kindNames {
		if known != name || has == Kind(k).whole() {
			continue
		}
		n := 0
		if has {
			var err error
			if n, err = strconv.Atoi(number); err != nil || n < 0 || n >= maxTail {
				break
			}
		}
		return Place{Kind(k), n}, nil
	}
	return Place{}, fmt.Errorf("place %q: want answer-end+N, echo+N, answer-mean, shown or prompt-end+N with N below %d", s, maxTail)
}

// Cell is a place at a layer. Layer counts blocks from 0 and means the residual
// after that block, which is the input of block Layer+1: PaLRS's x[i, l] is
// Layer l-1.
type Cell struct {
	Layer int
	Place Place
}

func (c Cell) String() string { return fmt.Sprintf("layer %d, %s", c.Layer, c.Place) }
