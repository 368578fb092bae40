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

// DecodeYAML reads what EncodeYAML writes, from at most MaxBytes: one document.
// Anchors and aliases may be used, for a vector that several blocks share.
func DecodeYAML(r io.Reader) (*steer.Plan, error) {
	data, err := read(r)
	if err != nil {
		return nil, err
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
