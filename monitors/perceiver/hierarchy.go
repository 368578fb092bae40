package perceiver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of a [Hierarchy].
const (
	MaxPrinciples = 8
	MaxName       = 48       // bytes
	MaxText       = 2048     // bytes of a text, a guidance or the prior
	MaxFile       = 64 << 10 // bytes of a file
)

// Principle is one thing to hold to.
type Principle struct {
	// Name is a short word for logs and the perceiver's answers.
	Name string `yaml:"name"`
	// Text says what it asks for, to the perceiver.
	Text string `yaml:"text"`
	// Guidance is what the writing model reads when the principle was violated.
	// {name}, {text} and {prior} stand for the principle's own and the
	// hierarchy's.
	Guidance string `yaml:"guidance"`
}

// Hierarchy is an ordered list of principles, the highest rank first. It is data
// and must not be changed once it is in use.
type Hierarchy struct {
	// Prior is a general reminder that guidance may begin with.
	Prior      string      `yaml:"prior"`
	Principles []Principle `yaml:"principles"`
}

// Default is Safety before Altruism before Egoism, after Asimov's laws.
func Default() *Hierarchy {
	return &Hierarchy{
		Prior: "I care about everyone whom my words reach.",
		Principles: []Principle{
			{"Safety", "Do not harm people, and do not help anyone to harm others or themselves.",
				"{prior} What I was about to write could hurt someone. I say so kindly and offer something safe instead."},
			{"Altruism", "Help the person who asks, and think of others whom it concerns, as far as nobody is harmed.",
				"{prior} What I was about to write was not helpful or fair to everyone concerned. I take their side into account."},
			{"Egoism", "Be honest, and keep your own role and reputation, as far as it neither harms nor fails anyone.",
				"{prior} What I was about to write was not true to my role. I go on honestly and modestly."},
		},
	}
}

// ReadFile reads a hierarchy from a regular file; see [Read]. Others are not
// opened: opening a FIFO can block for ever.
func ReadFile(path string) (*Hierarchy, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("principles: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("principles: %s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("principles: %w", err)
	}
	defer f.Close()
	h, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// file is what a hierarchy looks like on disk.
type file struct {
	Version   int `yaml:"version"`
	Hierarchy `yaml:",inline"`
}

// Read reads a hierarchy from YAML, or from JSON with the same fields, of at
// most MaxFile bytes:
//
//	version: 1
//	prior: I care about everyone whom my words reach.
//	principles: # the highest rank first
//	  - name: Safety
//	    text: Do not harm people.
//	    guidance: "{prior} What I was about to write could hurt someone."
//
// Unknown and doubled fields are errors, and so is what [Hierarchy.Validate]
// refuses.
func Read(r io.Reader) (*Hierarchy, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("principles: %w", err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("principles: longer than %d bytes", MaxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var f file
	if err := dec.Decode(&f); err == io.EOF {
		return nil, errors.New("principles: the file is empty")
	} else if err != nil {
		return nil, fmt.Errorf("principles: %w", err)
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("principles: something follows the principles")
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("principles: version is %d, this program reads 1", f.Version)
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &f.Hierarchy, nil
}

// Validate reports every fault at once.
func (h *Hierarchy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("principles: "+format, args...))
	}
	if n := len(h.Principles); n < 1 || n > MaxPrinciples {
		fault("there are %d, want 1 to %d", n, MaxPrinciples)
		return errors.Join(faults...)
	}
	if err := plain(h.Prior, MaxText); err != nil {
		fault("prior: %w", err)
	}
	seen := map[string]bool{}
	for i, p := range h.Principles {
		if err := checkName(p.Name); err != nil {
			fault("principle %d: name: %w", i, err)
		} else if name := strings.ToLower(p.Name); seen[name] {
			fault("principle %d: the name %s stands twice", i, p.Name)
		} else {
			seen[name] = true
		}
		if err := plain(p.Text, MaxText); err != nil {
			fault("principle %d: text: %w", i, err)
		} else if strings.TrimSpace(p.Text) == "" {
			fault("principle %d: the text is empty", i)
		}
		if err := plain(h.guidance(i), MaxText); err != nil {
			fault("principle %d: guidance: %w", i, err)
		} else if strings.TrimSpace(p.Guidance) == "" {
			fault("principle %d: the guidance is empty", i)
		}
	}
	return errors.Join(faults...)
}

// checkName keeps names apart from what a verdict says around them.
func checkName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("it has %d bytes, want 1 to %d", len(name), MaxName)
	}
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' {
			return fmt.Errorf("%q is not a letter, a digit, - or _", r)
		}
	}
	return nil
}

func plain(text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("%d bytes, the limit is %d", len(text), limit)
	}
	if !utf8.ValidString(text) {
		return errors.New("not valid UTF-8")
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return fmt.Errorf("control character %U", r)
		}
	}
	return nil
}

// guidance fills the template of a principle. The result of one replacement is
// not read again, so that no text can name another's placeholder.
func (h *Hierarchy) guidance(i int) string {
	p := &h.Principles[i]
	return strings.NewReplacer("{name}", p.Name, "{text}", p.Text, "{prior}", h.Prior).Replace(p.Guidance)
}

// Guidance is the text for the writing model when the named principle was
// violated; ok is false when there is no such principle.
func (h *Hierarchy) Guidance(name string) (text string, ok bool) {
	for i := range h.Principles {
		if h.Principles[i].Name == name {
			return h.guidance(i), true
		}
	}
	return "", false
}
