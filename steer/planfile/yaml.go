package planfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/trimtab/trimtab/steer"
)

// EncodeYAML writes the plan as a YAML document. The error is EncodeJSON's.
func EncodeYAML(p *steer.Plan) ([]byte, error) {
	d, err := describe(p)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	return b.Bytes(), nil
}

// MaxValues bounds the values of a YAML file, vectors' numbers included: the
// parser takes about 250 bytes for each, so that a hostile file could otherwise
// take gigabytes. JSON has no such bound.
const MaxValues = 2 << 20

// marks is at least the number of nodes that a YAML parser would make of the
// data: each is set apart by one of these marks.
func marks(data []byte) (n int) {
	for i, c := range data {
		switch c {
		case ',', ':', '[', '{', '?', '\n', '\r':
			n++
		case '-':
			if i+1 == len(data) || data[i+1] == ' ' || data[i+1] == '\t' || data[i+1] == '\n' {
				n++
			}
		}
	}
	return n
}

// DecodeYAML reads what EncodeYAML writes, from at most MaxBytes with at most
// MaxValues values: one document. Anchors and aliases may be used, for a vector that several blocks share.
func DecodeYAML(r io.Reader) (*steer.Plan, error) {
	data, err := read(r)
	if err != nil {
		return nil, err
	}
	if marks(data) > MaxValues {
		return nil, fmt.Errorf("plan file: more than %d values: write it as JSON, which is read with less memory", MaxValues)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var d document
	if err := dec.Decode(&d); err == io.EOF {
		return nil, errors.New("plan file: the file is empty")
	} else if err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("plan file: a second document follows the plan")
	}
	return d.plan()
}
