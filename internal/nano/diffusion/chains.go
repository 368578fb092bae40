package diffusion

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The alphabets of the two chain puzzles, and the length of both.
const (
	letters = "abcdefgh"
	colours = "RGBY"
	chain   = 16
)

// echo draws a permutation of the letters and repeats it.
func echo(r *rand.Rand) string {
	text := make([]byte, chain)
	for i, l := range r.Perm(len(letters)) {
		text[i], text[chain/2+i] = letters[l], letters[l]
	}
	return string(text)
}

// echoFault checks a permutation that is repeated.
func echoFault(text string) string {
	if len(text) != chain {
		return fmt.Sprintf("%d letters, want %d", len(text), chain)
	}
	for i := range chain / 2 {
		c := text[i]
		if c != text[chain/2+i] {
			return fmt.Sprintf("%q at %d is echoed by %q", c, i, text[chain/2+i])
		}
		if strings.IndexByte(letters, c) < 0 {
			return fmt.Sprintf("%q at %d is none of %q", c, i, letters)
		}
		if strings.IndexByte(text[:i], c) >= 0 {
			return fmt.Sprintf("%q at %d is there twice", c, i)
		}
	}
	return ""
}

// ring draws a colouring of the ring: cell by cell from the colours that the two
// before leave, until the ends meet. Each of the 66,888 colourings is equally
// likely, because every cell but the first two has two colours to choose from and
// a draw that does not close is thrown away whole.
func ring(r *rand.Rand) string {
	for range maxDraws {
		text := make([]byte, 0, chain)
		for len(text) < chain {
			c := colours[r.IntN(len(colours))]
			if !strings.ContainsRune(string(text[max(0, len(text)-2):]), rune(c)) {
				text = append(text, c)
			}
		}
		if ringFault(string(text)) == "" {
			return string(text)
		}
	}
	return "RGBYRGBYRGBYRGBY" // one draw in three closes: not reached
}

// ringFault checks that any three neighbours on the ring differ.
func ringFault(text string) string {
	if len(text) != chain {
		return fmt.Sprintf("%d cells, want %d", len(text), chain)
	}
	for i := range text {
		if strings.IndexByte(colours, text[i]) < 0 {
			return fmt.Sprintf("%q at %d is none of %q", text[i], i, colours)
		}
		for _, next := range []int{1, 2} {
			if j := (i + next) % chain; text[i] == text[j] {
				return fmt.Sprintf("%q at %d is also at %d", text[i], i, j)
			}
		}
	}
	return ""
}
