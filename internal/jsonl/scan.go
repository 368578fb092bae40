package jsonl

import "fmt"

// scan checks what encoding/json lets pass: nesting beyond our limit, and
// escapes for half a surrogate pair, which it would turn into U+FFFD. It trusts
// nothing: on broken JSON it may see anything, and json reports the fault later.
func scan(b []byte, maxDepth int) error {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("%w: the limit is %d", ErrTooDeep, maxDepth)
			}
		case '}', ']':
			depth--
		case '"':
			end, err := scanString(b, i+1)
			if err != nil {
				return err
			}
			i = end
		}
	}
	return nil
}

// scanString returns the index of the quote that closes the string whose text
// starts at i, or len(b).
func scanString(b []byte, i int) (int, error) {
	for i < len(b) {
		switch {
		case b[i] == '"':
			return i, nil
		case b[i] != '\\':
			i++
		case isUnit(b, i, 'd', '8', 'b'):
			if !isUnit(b, i+6, 'd', 'c', 'f') {
				return i, fmt.Errorf("%w: half a surrogate pair at byte %d", ErrUTF8, i+1)
			}
			i += 12
		case isUnit(b, i, 'd', 'c', 'f'):
			return i, fmt.Errorf("%w: half a surrogate pair at byte %d", ErrUTF8, i+1)
		default:
			i += 2
		}
	}
	return len(b), nil
}

// isUnit reports whether b has at i an escape \uXYhh with X = x and Y between
// lo and hi.
func isUnit(b []byte, i int, x, lo, hi byte) bool {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return false
	}
	y := b[i+3] | 0x20 // letters to lower case; '8' and '9' keep their bits
	return b[i+2]|0x20 == x && y >= lo && y <= hi
}
