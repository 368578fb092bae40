package runtime

import (
	"bytes"
	"unicode/utf8"
)

// transcript is the text of a session: the raw bytes of every committed token
// and how much of them has left. What left is kept as valid UTF-8 in out, which
// only ever grows, so slices of it may be handed out.
type transcript struct {
	raw   []byte   // bytes of the committed tokens, and of the candidate at the end
	sent  int      // bytes of raw that have left
	out   []byte   // what left, invalid bytes replaced
	stops [][]byte // none of them empty
}

func newTranscript(stops []string) transcript {
	var t transcript
	for _, s := range stops {
		t.stops = append(t.stops, []byte(s))
	}
	return t
}

// stop looks for a stop string that ends in raw[from:]. Of several it takes
// the one that ends first, of those the longest: the answer then does not
// depend on how the text was cut into tokens.
func (t *transcript) stop(from int) (start int, found bool) {
	end := len(t.raw) + 1
	for _, s := range t.stops {
		lo := max(t.sent, from-len(s)+1)
		if lo > len(t.raw) {
			continue
		}
		i := bytes.Index(t.raw[lo:], s)
		if i < 0 {
			continue
		}
		if e := lo + i + len(s); e < end || e == end && lo+i < start {
			start, end, found = lo+i, e, true
		}
	}
	return start, found
}

// open is how many bytes at the end of raw may still become a stop string.
func (t *transcript) open() int {
	most := 0
	for _, s := range t.stops {
		for k := min(len(s)-1, len(t.raw)-t.sent); k > most; k-- {
			if bytes.Equal(t.raw[len(t.raw)-k:], s[:k]) {
				most = k
				break
			}
		}
	}
	return most
}

// release lets raw[:limit] leave, except a character that is cut by the limit;
// last lets that leave as well. Every byte that belongs to no character becomes
// U+FFFD, whatever pieces the text leaves in.
func (t *transcript) release(limit int, last bool) {
	for t.sent < limit {
		rest := t.raw[t.sent:limit]
		if rest[0] < utf8.RuneSelf {
			t.out = append(t.out, rest[0])
			t.sent++
			continue
		}
		if !last && !utf8.FullRune(rest) {
			return
		}
		r, n := utf8.DecodeRune(rest)
		t.out = utf8.AppendRune(t.out, r)
		t.sent += n
	}
}
