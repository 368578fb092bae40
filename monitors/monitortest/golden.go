package monitortest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/jsonl"
	"github.com/trimtab/trimtab/internal/trace"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// Record is one line of a golden text: a candidate with the opinion that is
// expected of it, or a rewind. The file is JSON, one record a line, as traces
// of sessions are (package internal/trace); lines that start with # are
// comments.
//
//	# the phrase lies across three tokens
//	{"piece":"make"}
//	{"piece":" a","raw":[0.5,1],"rows":{"3.post":[0.1,0.2]},"token":1}
//	{"piece":" bomb","want":{"score":1,"flag":true,"onset":2,"note":"make a bomb"}}
//	{"rewind":1}
//	{"piece":" cake"}
//
// A want that is absent is a score of 0, unflagged.
type Record struct {
	Piece  trace.Bytes          `json:"piece,omitempty"` // a string, or {"bytes": base64} for a part of a character
	Token  int32                `json:"token,omitempty"`
	Raw    []float32            `json:"raw,omitempty"`
	Logits []float32            `json:"logits,omitempty"` // absent when equal to Raw
	Rows   map[string][]float32 `json:"rows,omitempty"`   // activations by site, "3.post"
	Rewind int                  `json:"rewind,omitempty"` // instead of all these: forget as many candidates
	Want   *Want                `json:"want,omitempty"`
}

// Want is an expected verdict, or a part of the expected error's words.
type Want struct {
	Score float64 `json:"score,omitempty"` // within 1e-6, or 1e-6 of its size
	Flag  bool    `json:"flag,omitempty"`
	Onset int     `json:"onset,omitempty"`
	Note  string  `json:"note,omitempty"`
	Error string  `json:"error,omitempty"`
}

// maxRecords bounds a golden file.
const maxRecords = 100_000

// Golden plays the file at path to a new watcher and compares its verdicts with
// those in the file. With update it writes them into the file instead; look at
// the difference before you keep it. The candidates are shown under the same
// conditions as [Run] shows them.
func Golden(t *testing.T, m monitors.Monitor, path string, update bool) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := play(t.Context(), m, text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, text) {
		t.Errorf("%s: -want +got, run with -update and look at the difference\n%s", path, cmp.Diff(lines(text), lines(got)))
	}
}

func lines(b []byte) []string { return strings.Split(string(b), "\n") }

// play returns the file as it should be. Records whose expectation holds keep
// their spelling.
func play(ctx context.Context, m monitors.Monitor, text []byte) ([]byte, error) {
	var out bytes.Buffer
	l := newLoop(m)
	r := jsonl.NewReader(bytes.NewReader(text), jsonl.Limits{})
	for n := 0; ; n++ {
		line, err := r.Next()
		if err == io.EOF {
			return out.Bytes(), nil
		} else if err != nil {
			return nil, err
		}
		if n == maxRecords {
			return nil, fmt.Errorf("more than %d records", maxRecords)
		}
		spelt := bytes.Clone(line.Data)
		if spelt[0] != '#' {
			if spelt, err = l.turn(ctx, line); err != nil {
				return nil, fmt.Errorf("line %d: %w", line.Number, err)
			}
		}
		out.Write(append(spelt, '\n'))
	}
}

// turn plays one record and returns it with the verdict that came.
func (l *loop) turn(ctx context.Context, line jsonl.Line) ([]byte, error) {
	var rec Record
	if err := line.Decode(&rec); err != nil {
		return nil, err
	}
	var got Want
	if rec.Rewind != 0 {
		if err := l.rewind(rec.Rewind); err != nil {
			got.Error = err.Error()
		}
	} else {
		in, err := rec.input()
		if err != nil {
			return nil, err
		}
		v, err, broken := l.observe(ctx, in)
		if broken != nil {
			return nil, broken
		}
		if err != nil {
			got.Error = err.Error()
		} else {
			got = Want{Score: v.Score, Flag: v.Flag, Onset: v.Onset, Note: v.Note}
		}
	}
	if rec.Want.holds(got) {
		return bytes.Clone(line.Data), nil
	}
	rec.Want = &got
	if got == (Want{}) {
		rec.Want = nil
	}
	return marshal(rec)
}

// holds reports whether what came is what is written.
func (w *Want) holds(got Want) bool {
	if w == nil {
		w = &Want{}
	}
	if w.Error != "" {
		return strings.Contains(got.Error, w.Error)
	}
	near := math.Abs(w.Score-got.Score) <= 1e-6*max(1, math.Abs(w.Score))
	return near && w.Flag == got.Flag && w.Onset == got.Onset && w.Note == got.Note && got.Error == ""
}

func (rec *Record) input() (Input, error) {
	in := Input{Token: decode.Token(rec.Token), Piece: rec.Piece, Raw: rec.Raw, Logits: rec.Logits}
	for name, row := range rec.Rows {
		site, err := parseSite(name)
		if err != nil {
			return in, err
		}
		if in.Rows == nil {
			in.Rows = map[steer.Site][]float32{}
		}
		in.Rows[site] = row
	}
	return in, nil
}

// parseSite reads what steer.Site.String writes.
func parseSite(s string) (steer.Site, error) {
	var site steer.Site
	if _, err := fmt.Sscanf(s, "%d.", &site.Layer); err != nil || site.String() != s {
		return site, fmt.Errorf("rows: %q is not a site, want for example 3.post", s)
	}
	return site, nil
}

// marshal leaves <, > and & as they are: people read this.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, errors.Join(errors.New("a verdict cannot be written"), err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
