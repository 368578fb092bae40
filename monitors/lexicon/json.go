package lexicon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// jsonReader walks the tokens of a JSON list, so that every fault has a place.
type jsonReader struct {
	*parser
	d *json.Decoder
}

func (p *parser) json() {
	r := &jsonReader{p, json.NewDecoder(bytes.NewReader(p.data))}
	r.d.UseNumber()
	if err := r.object(); err != nil {
		p.faults = append(p.faults, err)
	}
}

// next returns the next token and where it starts.
func (r *jsonReader) next() (json.Token, int, error) {
	off := r.skip(int(r.d.InputOffset()), " \t\r\n,:")
	t, err := r.d.Token()
	if err == nil {
		return t, off, nil
	}
	var s *json.SyntaxError
	switch {
	case errors.As(err, &s):
		off = r.skip(max(0, int(s.Offset)-1), " \t\r\n")
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		off, err = len(r.data), errors.New("it breaks off")
	}
	return nil, off, r.wrong(off, err)
}

// skip returns the offset of the first byte from off on that is none of these.
func (r *jsonReader) skip(off int, these string) int {
	for off < len(r.data) && strings.IndexByte(these, r.data[off]) >= 0 {
		off++
	}
	return off
}

func (r *jsonReader) wrong(off int, err error) error {
	line, column := r.places.find(r.data, min(off, len(r.data)))
	return at(line, column, err)
}

func (r *jsonReader) object() error {
	if _, _, err := r.next(); err != nil { // the {
		return err
	}
	seen := map[string]bool{}
	for r.d.More() {
		key, off, err := r.next()
		if err != nil {
			return err
		}
		name, _ := key.(string) // the decoder takes no other keys
		if seen[name] {
			return r.wrong(off, fmt.Errorf("field %.40q occurs twice", name))
		}
		seen[name] = true
		if err := r.field(name, off); err != nil {
			return err
		}
	}
	if _, _, err := r.next(); err != nil { // the }
		return err
	}
	if off := r.skip(int(r.d.InputOffset()), " \t\r\n"); off < len(r.data) {
		return r.wrong(off, errors.New("something follows the list"))
	}
	return nil
}

func (r *jsonReader) field(name string, at int) error {
	switch name {
	case "words":
		return r.truth(name, &r.list.Words)
	case "exact":
		return r.truth(name, &r.list.Exact)
	case "window":
		return r.window()
	case "phrases":
		return r.strings(name, false)
	case "regexps":
		return r.strings(name, true)
	}
	return r.wrong(at, fmt.Errorf("unknown field %.40q, want words, exact, window, phrases or regexps", name))
}

func (r *jsonReader) truth(name string, to *bool) error {
	t, off, err := r.next()
	if err != nil {
		return err
	}
	b, ok := t.(bool)
	if !ok {
		return r.wrong(off, fmt.Errorf("%s must be true or false", name))
	}
	*to = b
	return nil
}

func (r *jsonReader) window() error {
	t, off, err := r.next()
	if err != nil {
		return err
	}
	number, _ := t.(json.Number)
	n, err := number.Int64()
	if err != nil || n < 1 || n > MaxWindow {
		return r.wrong(off, fmt.Errorf("window must be 1 to %d bytes", MaxWindow))
	}
	r.list.Window = int(n)
	return nil
}

func (r *jsonReader) strings(name string, isRegexp bool) error {
	t, off, err := r.next()
	if err != nil {
		return err
	}
	if t != json.Delim('[') {
		return r.wrong(off, fmt.Errorf("%s must be a list of texts", name))
	}
	for r.d.More() {
		t, off, err := r.next()
		if err != nil {
			return err
		}
		s, ok := t.(string)
		if !ok {
			return r.wrong(off, fmt.Errorf("%s must be a list of texts", name))
		}
		r.entry(off, s, isRegexp)
	}
	_, _, err = r.next()
	return err
}
