package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/checker"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/safety"
	"github.com/trimtab/trimtab/internal/jsonl"
	"github.com/trimtab/trimtab/monitors/lexicon"
	"github.com/trimtab/trimtab/monitors/reach"
)

// specimen is a prompt with, where that is given, the text that follows it.
type specimen struct {
	question checker.Question
	text     string // given; empty for one that is to be generated
	from     int    // byte of a given text with which it is unsafe, -1 for a safe one
}

// labelKinds are the forms of --label, for messages.
const labelKinds = "lexicon:FILE, cmd:COMMAND, labels:FILE or nano"

// labelOf reads a --label. A labels file has texts of its own: given is then
// true, and there is no labeller.
func labelOf(text string, timeout time.Duration) (l safety.Labeller, given bool, err error) {
	kind, arg, _ := strings.Cut(text, ":")
	switch {
	case text == "nano":
		return safety.Nano{}, false, nil
	case kind == "labels" && arg != "":
		return nil, true, nil
	case kind == "cmd" && arg != "":
		return safety.Command{Checker: &checker.Checker{Command: arg, Timeout: timeout}}, false, nil
	case kind == "lexicon" && arg != "":
		list, err := lexicon.ReadFile(arg)
		if err != nil {
			return nil, false, badInput("--label: %w", err)
		}
		return safety.Lexicon{List: list}, false, nil
	}
	return nil, false, fmt.Errorf("%q is none of %s", text, labelKinds)
}

// maxLabelLine bounds a line of a labels file, in bytes.
const maxLabelLine = 4 << 20

// readSpecimens reads texts with their labels.
func readSpecimens(path string) ([]specimen, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, badInput("--label: %w", err)
	}
	defer f.Close()
	in := jsonl.NewReader(f, jsonl.Limits{Line: maxLabelLine})
	var out []specimen
	seen := map[string]bool{}
	for {
		line, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, badInput("%s: %w", path, err)
		}
		s, err := readSpecimen(line)
		switch {
		case err == nil && len(out) == checker.MaxItems:
			err = fmt.Errorf("the limit is %d texts", checker.MaxItems)
		case err == nil && seen[s.question.ID]:
			err = fmt.Errorf("the id %q is used twice", s.question.ID)
		}
		if err != nil {
			return nil, badInput("%s: line %d: %w", path, line.Number, err)
		}
		seen[s.question.ID] = true
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, badInput("%s: it holds no text", path)
	}
	return out, nil
}

func readSpecimen(line jsonl.Line) (specimen, error) {
	var w struct {
		ID       json.RawMessage   `json:"id"`
		Prompt   string            `json:"prompt"`
		Messages []checker.Message `json:"messages"`
		Text     string            `json:"text"`
		Unsafe   json.RawMessage   `json:"unsafe"`
	}
	if err := line.Decode(&w); err != nil {
		return specimen{}, errors.Unwrap(err)
	}
	s := specimen{question: checker.Question{ID: strconv.Itoa(line.Number), Turns: w.Messages}, text: w.Text}
	if len(w.ID) > 0 && string(w.ID) != "null" && json.Unmarshal(w.ID, &s.question.ID) != nil {
		s.question.ID = string(w.ID)
	}
	switch {
	case (w.Prompt == "") == (len(w.Messages) == 0):
		return s, errors.New(`want either "prompt" or "messages"`)
	case w.Text == "":
		return s, errors.New(`"text" is missing or empty`)
	case w.Prompt != "":
		s.question.Turns = []checker.Message{{Role: "user", Content: w.Prompt}}
	}
	var err error
	s.from, err = unsafeFrom(w.Unsafe, w.Text)
	return s, err
}

// unsafeFrom reads false, true (from the first token on) or the number of
// characters before the text becomes unsafe, and returns bytes.
func unsafeFrom(raw json.RawMessage, text string) (int, error) {
	switch string(raw) {
	case "false":
		return -1, nil
	case "true":
		return 0, nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 || n >= utf8.RuneCountInString(text) {
		return 0, fmt.Errorf(`"unsafe" must be true, false or a number of characters, less than the text's %d`, utf8.RuneCountInString(text))
	}
	for i := range text {
		if n == 0 {
			return i, nil
		}
		n--
	}
	return 0, nil
}

// givenLabels sets the margins of texts whose labels came with them.
type givenLabels []specimen

// Margins falls with the token in which the text becomes unsafe.
func (g givenLabels) Margins(_ context.Context, d *reach.Data, spell reach.Spell) error {
	i := 0
	reach.LabelText(d, spell, func(string) int {
		i++
		return g[i-1].from
	})
	return nil
}

// writeSpecimens writes the texts with their labels in the form that
// readSpecimens reads. Empty ones are left out. A file that is there is replaced.
func (g *gathering) writeSpecimens(path string, got *gathered) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range got.specimens {
		t, q := &got.data.Trajectories[i], &got.specimens[i].question
		var text, before strings.Builder
		for k, token := range t.Tokens {
			if text.WriteString(g.spell(token)); k < t.Failure() {
				before.WriteString(g.spell(token))
			}
		}
		whole := strings.ToValidUTF8(text.String(), "\ufffd")
		if whole == "" {
			continue
		}
		var unsafe any = false
		if t.Unsafe() {
			unsafe = min(utf8.RuneCountInString(before.String()), utf8.RuneCountInString(whole)-1)
		}
		if err := enc.Encode(map[string]any{"id": q.ID, "messages": q.Turns, "text": whole, "unsafe": unsafe}); err != nil {
			return fmt.Errorf("--write-texts: %w", err)
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return badInput("--write-texts: %w", err)
	}
	return nil
}
