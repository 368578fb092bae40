package planfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/trimtab/trimtab/steer"
)

// EncodeJSON writes the plan as one line of JSON.
// The error names fields that are set though their operation ignores them.
func EncodeJSON(p *steer.Plan) ([]byte, error) {
	d, err := describe(p)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeJSON reads what EncodeJSON writes, from at most MaxBytes.
func DecodeJSON(r io.Reader) (*steer.Plan, error) {
	data, err := read(r)
	if err != nil {
		return nil, err
	}
	if err := checkKeys(data); err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var d document
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	return d.plan()
}

// maxDepth is deeper than any plan is nested.
const maxDepth = 8

// checkKeys refuses what encoding/json lets pass: doubled keys, keys in another
// case, and a second value behind the first.
func checkKeys(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var open []*scope
	for {
		tok, err := dec.Token()
		if err == io.EOF && len(open) == 0 {
			return errors.New("the file is empty")
		}
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if err := note(&open, tok); err != nil {
			return fmt.Errorf("at byte %d: %w", dec.InputOffset(), err)
		}
		if len(open) == 0 {
			break
		}
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("at byte %d: something follows the plan", dec.InputOffset())
	}
	return nil
}

// scope is an object or a list that is being read.
type scope struct {
	keys  map[string]bool // nil for a list
	value bool            // a value comes next, not a key
}

func note(open *[]*scope, tok json.Token) error {
	var in *scope
	if n := len(*open); n > 0 {
		in = (*open)[n-1]
	}
	if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
		*open = (*open)[:len(*open)-1]
		return nil
	}
	if key, ok := tok.(string); ok && in != nil && in.keys != nil && !in.value {
		in.value = true
		if in.keys[key] {
			return fmt.Errorf("field %q stands twice", key)
		}
		if key != strings.ToLower(key) {
			return fmt.Errorf("unknown field %q, fields are in lower case", key)
		}
		in.keys[key] = true
		return nil
	}
	if in != nil {
		in.value = false
	}
	if d, ok := tok.(json.Delim); ok {
		if len(*open) == maxDepth {
			return fmt.Errorf("nested deeper than %d levels", maxDepth)
		}
		s := &scope{}
		if d == '{' {
			s.keys = map[string]bool{}
		}
		*open = append(*open, s)
	}
	return nil
}
