// Package lexicon watches for phrases and patterns in what a model says.
//
// The model for the reader's head is a reader with a list. A [List] holds
// phrases, which are found by an Aho-Corasick automaton however many there are,
// and regular expressions (RE2, package regexp), which are searched in a window
// before each token. Make one in code, or from a file with [ReadFile];
// [List.Monitor] compiles it. Text is followed across token borders, also where
// a character is split between tokens, and every rewind is exact.
//
// A lexicon knows words, not meanings: it is the cheapest of monitors, a source
// of labels for others, and no protection against paraphrase.
package lexicon

import (
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/monitors"
)

// Bounds of a list, so that a file from outside cannot take memory or time
// without limit.
const (
	MaxFile    = 8 << 20 // bytes of a file
	MaxEntries = 100_000
	MaxPhrase  = 1024 // bytes of one phrase
	MaxFolded  = 2 << 20
	MaxRegexps = 64
	MaxPattern = 1024 // bytes of one regular expression
	// MaxProgram is the size of a compiled regular expression, in
	// instructions; a\d{500} has about 500.
	MaxProgram = 10_000
	// DefaultWindow and MaxWindow are List.Window, in bytes.
	DefaultWindow = 256
	MaxWindow     = 4096

	maxFaults = 16
)

// Entry is one thing to look for.
type Entry struct {
	Text   string // a phrase, or a regular expression in the syntax of package regexp
	Regexp bool
	// Line and Column, counted from 1, are where the entry stands in its file,
	// for messages; 0 when it came from code. Columns count characters.
	Line, Column int
}

// List is what to look for. It is data: fill it before use, then leave it alone.
type List struct {
	Entries []Entry

	// Words makes a phrase count only where no letter, digit or underscore is
	// next to it, as far as its own edge is one. Whether "bomb" is a word of its
	// own shows with the character behind it: a phrase that ends with a token
	// is therefore reported with the next token, and its Onset leads back. A
	// token without text (control tokens, the end) ends a word. Letters of
	// scripts that put no spaces between words (Han, Kana, Thai, Lao, Khmer,
	// Myanmar) ask for no border.
	Words bool

	// Exact compares phrases letter by letter. Otherwise letters are equal
	// whatever their case and form: text and phrases are decomposed (NFKD,
	// character by character), case is folded, any white space is one space,
	// and invisible characters (category Cf, variation selectors) are left out.
	// Letters of different alphabets that look alike stay different, and marks
	// in an unusual order too.
	Exact bool

	// Window is how far before a token, in bytes, a match of a regular
	// expression may begin. 0 stands for DefaultWindow.
	Window int
}

// Monitor compiles the list. All faults are reported at once, each with its
// line and column if it has one.
//
// A verdict's Score is the number of matches that the token completed; it is
// flagged if there is one. Onset leads to the token in which the earliest of
// them began, and Note names it as the list has it.
//
// Phrases cost about 20 ns per byte of text, whatever their number. A regular
// expression costs a search of Window bytes per token, some microseconds: it is
// seen by the text as it is, without folding, and (?i) is up to it. Expressions
// with \b, \B or (?m:$) count when the character behind the match is there. A
// match is one that Go's FindAll would find in the window: leftmost, preferring
// as the expression does, without overlap.
//
// A watcher keeps 32 bytes for each token, and its text twice. An error of
// Observe leaves it as it was.
func (l *List) Monitor(name string) (monitors.Monitor, error) {
	c, err := l.compile()
	if err == nil && name == "" {
		err = errors.New("the monitor has no name")
	}
	if err != nil {
		return monitors.Monitor{}, fmt.Errorf("lexicon %q: %w", name, err)
	}
	return monitors.Monitor{
		Name:  name,
		Doc:   fmt.Sprintf("finds %d phrases and %d regular expressions in the answer", len(c.phrases), len(c.patterns)),
		Start: func() monitors.Watcher { return &watcher{c: c} },
	}, nil
}

// compiled is a list ready for use. Watchers share it and never change it.
type compiled struct {
	exact    bool
	window   int
	phrases  []phrase
	machine  *automaton
	patterns []pattern
}

// phrase is one of the automaton's outputs.
type phrase struct {
	text        string // as written
	size        int    // bytes when folded
	left, right bool   // a word border is needed there
}

func (l *List) compile() (*compiled, error) {
	c := &compiled{exact: l.Exact, window: l.Window}
	if c.window == 0 {
		c.window = DefaultWindow
	}
	if err := l.bounds(); err != nil {
		return nil, err
	}
	var faults []error
	var folded []string
	total := 0
	for i := range l.Entries {
		e := &l.Entries[i]
		if e.Regexp {
			p, err := compilePattern(e.Text)
			if err != nil {
				faults = append(faults, e.fault(err))
			}
			c.patterns = append(c.patterns, p)
			continue
		}
		f, err := l.phrase(e.Text)
		if err != nil {
			faults = append(faults, e.fault(err))
			continue
		}
		total += len(f)
		folded = append(folded, f)
		c.phrases = append(c.phrases, phrase{e.Text, len(f), l.Words && edge(f, false), l.Words && edge(f, true)})
	}
	if total > MaxFolded {
		faults = append(faults, fmt.Errorf("phrases of %d bytes together, the limit is %d", total, MaxFolded))
	}
	if err := join(faults); err != nil {
		return nil, err
	}
	c.machine = newAutomaton(folded)
	return c, nil
}

func (l *List) bounds() error {
	regexps := 0
	for i := range l.Entries {
		if l.Entries[i].Regexp {
			regexps++
		}
	}
	switch n := len(l.Entries); {
	case n == 0:
		return errors.New("there is nothing to look for")
	case n > MaxEntries:
		return fmt.Errorf("more than %d entries", MaxEntries)
	case regexps > MaxRegexps:
		return fmt.Errorf("%d regular expressions, the limit is %d", regexps, MaxRegexps)
	case l.Window < 0 || l.Window > MaxWindow:
		return fmt.Errorf("window of %d bytes, must be 1 to %d, or 0 for %d", l.Window, MaxWindow, DefaultWindow)
	}
	return nil
}

// phrase checks a phrase and returns it as the automaton sees it.
func (l *List) phrase(s string) (string, error) {
	if len(s) > MaxPhrase {
		return "", fmt.Errorf("phrase of %d bytes, the limit is %d", len(s), MaxPhrase)
	}
	if err := checkText(s); err != nil {
		return "", err
	}
	if l.Exact {
		if s == "" {
			return "", errors.New("phrase is empty")
		}
		return s, nil
	}
	f := fold(s)
	if f == "" {
		return "", fmt.Errorf("phrase %.40q is empty: no visible character is left", s)
	}
	return f, nil
}

// fault names the place of an entry's fault.
func (e *Entry) fault(err error) error { return at(e.Line, e.Column, err) }

func at(line, column int, err error) error {
	if line == 0 {
		return err
	}
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

func join(faults []error) error {
	if len(faults) > maxFaults {
		faults = append(faults[:maxFaults:maxFaults], errors.New("and more faults"))
	}
	return errors.Join(faults...)
}
