package lexicon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ReadFile reads a list from a regular file in either form of [Read]. Others are
// not opened: opening a FIFO can block for ever.
func ReadFile(path string) (*List, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("lexicon: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("lexicon: %s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lexicon: %w", err)
	}
	defer f.Close()
	l, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// Read reads a list from text or JSON, in UTF-8. Text has one entry a line:
//
//	# a comment
//	a phrase
//	/(?i)a regular expression/
//	/another/i
//	\/a phrase that starts with a slash, or \# with a hash, or \\ with a backslash
//
// White space around an entry does not count. The letters behind an
// expression's second slash are its flags i, m and s. JSON is an object whose
// fields are all optional:
//
//	{"words": true, "exact": false, "window": 256, "phrases": ["a"], "regexps": ["b+"]}
//
// Everything that [List.Monitor] would refuse is refused here. All faults are
// reported at once, each with line and column.
func Read(r io.Reader) (*List, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("lexicon: %w", err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("lexicon: more than %d bytes", MaxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	p := &parser{data: data}
	if off := invalid(data); off >= 0 {
		p.fault(off, errors.New("not valid UTF-8"))
	} else if b := bytes.TrimLeftFunc(data, unicode.IsSpace); len(b) > 0 && b[0] == '{' {
		p.json()
	} else {
		p.text()
	}
	if len(p.faults) == 0 {
		_, err := p.list.compile()
		if err != nil {
			return nil, fmt.Errorf("lexicon: %w", err)
		}
		return &p.list, nil
	}
	return nil, fmt.Errorf("lexicon: %w", join(p.faults))
}

func invalid(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// parser fills a list.
type parser struct {
	data   []byte
	list   List
	faults []error
	places places
}

// places turns offsets that never get smaller into lines and columns.
type places struct{ off, line, start int }

func (p *places) find(data []byte, off int) (line, column int) {
	if off < p.off || p.line == 0 {
		*p = places{line: 1}
	}
	for ; p.off < off; p.off++ {
		if data[p.off] == '\n' {
			p.line, p.start = p.line+1, p.off+1
		}
	}
	return p.line, utf8.RuneCount(data[p.start:off]) + 1
}

// fault notes an error, and that there are more than can be shown.
func (p *parser) fault(off int, err error) {
	if len(p.faults) > maxFaults {
		return
	}
	line, column := p.places.find(p.data, min(off, len(p.data)))
	p.faults = append(p.faults, at(line, column, err))
}

// entry takes an entry over, up to one more than is allowed.
func (p *parser) entry(off int, text string, isRegexp bool) {
	if len(p.list.Entries) > MaxEntries {
		return
	}
	line, column := p.places.find(p.data, off)
	p.list.Entries = append(p.list.Entries, Entry{text, isRegexp, line, column})
}

func (p *parser) text() {
	for off := 0; off < len(p.data); {
		line := p.data[off:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i]
		}
		s := strings.TrimRightFunc(string(line), unicode.IsSpace)
		trimmed := strings.TrimLeftFunc(s, unicode.IsSpace)
		p.line(off+len(s)-len(trimmed), trimmed)
		off += len(line) + 1
	}
}

func (p *parser) line(off int, s string) {
	switch {
	case s == "" || s[0] == '#':
	case s[0] == '/':
		if expr, err := slashed(s); err != nil {
			p.fault(off, err)
		} else {
			p.entry(off, expr, true)
		}
	case s[0] == '\\':
		if len(s) < 2 || !strings.ContainsRune(`/#\`, rune(s[1])) {
			p.fault(off, errors.New(`a \ at the start stands before / # or \; write \\ for a backslash`))
			return
		}
		p.entry(off, s[1:], false)
	default:
		p.entry(off, s, false)
	}
}

// slashed reads /expression/flags.
func slashed(s string) (string, error) {
	end := strings.LastIndexByte(s, '/')
	if end == 0 {
		return "", errors.New(`a regular expression ends with a slash; write \/ for a phrase that starts with one`)
	}
	expr, flags := s[1:end], s[end+1:]
	if bad := strings.Trim(flags, "ims"); bad != "" {
		return "", fmt.Errorf("unknown flag %.20q behind a regular expression, want i, m or s", bad)
	}
	if flags != "" {
		expr = "(?" + flags + ")" + expr
	}
	return expr, nil
}
