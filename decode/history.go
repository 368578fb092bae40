package decode

import "fmt"

// RewindLimit is how many tokens every processor of this package can rewind at
// the least (fewer only when fewer were accepted). Those that remember tokens
// drop older ones, so a rewind that needs a dropped one is an error and changes
// nothing. Held memory: at most 8 bytes per token of window and limit.
const RewindLimit = 1 << 16

// history is the bounded memory of accepted tokens behind a window: the last
// window tokens that a processor looks at, and as many before them as a rewind
// within RewindLimit can bring back into the window.
type history struct {
	toks   []Token
	window int
	floor  int // tokens at the front of toks that cannot be rewound
}

// newHistory starts with the end of a prompt, which cannot be rewound.
func newHistory(window int, prompt []Token) (history, error) {
	h := history{window: window}
	for _, t := range prompt[max(0, len(prompt)-window):] {
		if err := h.accept(t); err != nil {
			return h, fmt.Errorf("prompt: %w", err)
		}
	}
	h.floor = len(h.toks)
	return h, nil
}

func (h *history) accept(t Token) error {
	if err := checkToken(t); err != nil {
		return err
	}
	if keep := h.window + RewindLimit; len(h.toks) >= 2*keep {
		// Moving half down every keep tokens costs one copy per token.
		n := copy(h.toks, h.toks[len(h.toks)-keep:])
		h.toks = h.toks[:n]
		h.floor = h.window
	}
	h.toks = append(h.toks, t)
	return nil
}

// canRewind reports as an error why n tokens cannot be taken back.
func (h *history) canRewind(n int) error {
	if err := checkRewind(n); err != nil {
		return err
	}
	if have := len(h.toks) - h.floor; n > have {
		return fmt.Errorf("rewind %d tokens, only the last %d are known", n, have)
	}
	return nil
}

func (h *history) rewind(n int) error {
	if err := h.canRewind(n); err != nil {
		return err
	}
	h.toks = h.toks[:len(h.toks)-n]
	return nil
}

// last returns the newest n tokens, or all when fewer are known, oldest first.
func (h *history) last(n int) []Token { return h.toks[max(0, len(h.toks)-n):] }

// leaving is the token that drops out of the window when the newest enters,
// if the window was full.
func (h *history) leaving() (Token, bool) {
	i := len(h.toks) - 1 - h.window
	if i < 0 {
		return 0, false
	}
	return h.toks[i], true
}
