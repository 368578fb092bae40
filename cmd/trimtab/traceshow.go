package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/internal/trace"
	"github.com/trimtab/trimtab/runtime/audit"
)

const traceShowLong = `Print an audit log or a trace as a timeline.

Of an audit log: every intervention with the scores behind it, where the text
went back to, what was thrown away, and how it came out. Of a trace: every step.
Texts are quoted, so that nothing in them acts on the terminal. Colours are used
on a terminal only: red for flags, green for what came out well.`

func newTraceShow(a *app) *cobra.Command {
	return &cobra.Command{Use: "show FILE", Short: "Print an audit log or a trace as a timeline", Long: traceShowLong,
		Example: "  trimtab run -p \"Hello\" --audit a.jsonl && trimtab trace show a.jsonl", Args: oneArg("an audit log or a trace"),
		RunE: func(_ *cobra.Command, args []string) error { return showFile(a, args[0]) }}
}

func showFile(a *app, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return badInput("%w", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	out := bufio.NewWriter(a.out)
	t := &timeline{w: out, colour: a.outTTY && a.colors}
	if head, _ := in.Peek(64 << 10); kindOfFirst(head) == "start" { // an error shows again below
		err = traces(in, t.trace)
	} else {
		err = t.audits(in)
	}
	if err != nil {
		err = badInput("%s: %w", name, err)
	} else if t.n == 0 {
		err = badInput("%s is empty", name)
	}
	return errors.Join(out.Flush(), err)
}

// kindOfFirst is the kind of the first record, as far as it is there.
func kindOfFirst(head []byte) string {
	head, _, _ = bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	if kind := kindOf(head); kind != "" {
		return kind
	}
	if bytes.HasPrefix(head, []byte(`{"kind":"start"`)) { // longer than what was peeked
		return "start"
	}
	return ""
}

// timeline prints for people.
type timeline struct {
	w      io.Writer
	colour bool
	n      int // sessions
}

// SGR codes of the colours.
const (
	red, green, yellow, dim = "31", "32", "33", "2"
)

func (t *timeline) paint(code, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (t *timeline) line(format string, args ...any) { fmt.Fprintf(t.w, format+"\n", args...) }

// plain keeps words of a file from acting on the terminal.
func plain(s string) string {
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

func (t *timeline) audits(in io.Reader) error {
	r := audit.NewReader(in)
	for {
		g, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if g == nil {
			return err
		}
		t.audit(g)
		if err != nil {
			t.line("  %s", t.paint(yellow, plain(err.Error())))
		}
	}
}

func (t *timeline) audit(g *audit.Log) {
	h := &g.Header
	t.head(h.ID, h.Model, h.Hash, h.Seed, h.HoldBack, "on a fault "+map[audit.Mode]string{audit.Open: "it goes on", audit.Closed: "it ends"}[h.OnFault])
	for _, m := range h.Monitors {
		t.line("  monitor %s (%s)", plain(m.Name), plain(m.Hash))
	}
	if h.Policy != "" {
		t.line("  policy  %s", plain(h.Policy))
	}
	for i := range g.Entries {
		t.entry(&g.Entries[i])
	}
	if f := &g.Footer; f.Kind != "" {
		t.line("%7s  %d tokens, %s; %d interventions, %d rewinds, %d tokens thrown away, %d faults", "end", f.Tokens, plain(f.Finish), f.Interventions, f.Rewinds, f.Discarded, f.Faults)
	}
}

func (t *timeline) head(id, model, hash string, seed uint64, hold int, more string) {
	if t.n++; t.n > 1 {
		t.line("")
	}
	if id != "" {
		id = " " + plain(id)
	}
	t.line("session %d%s: model %s (%s), seed %d, hold-back %d, %s", t.n, id, plain(model), plain(hash), seed, hold, more)
}

func (t *timeline) entry(e *audit.Entry) {
	switch {
	case e.Fault != nil:
		t.line("%7d  %s %s %s: %s (%s)", e.Fault.Step, t.paint(red, "fault"), plain(e.Fault.Part), plain(e.Fault.Name), plain(e.Fault.Error),
			map[audit.Mode]string{audit.Open: "switched off", audit.Closed: "the session ended"}[e.Fault.Mode])
	case e.Mark != nil:
		m := e.Mark
		t.line("%7d  mark %s%s", m.Step, plain(m.Reason), t.scores(m.Scores))
		t.changes(m.Guide, m.GuideSpan, m.Force, m.Ban, m.Plan)
	default:
		t.intervention(e)
	}
}

func (t *timeline) intervention(e *audit.Entry) {
	i := e.Intervention
	what := i.Action
	if i.Action == "rewind" {
		what = fmt.Sprintf("rewind %d to %d", i.Rewound, i.Point)
		if i.Wanted != i.Rewound {
			what += fmt.Sprintf(" (asked for %d)", i.Wanted)
		}
	}
	t.line("%7d  %s: %s%s", i.Step, t.paint(yellow, plain(what)), plain(i.Reason), t.scores(i.Scores))
	t.line("%9sthrew away %s", "", t.paint(dim, strconv.Quote(string(i.Discarded.Text))))
	t.changes(i.Guide, i.GuideSpan, i.Force, i.Ban, i.Plan)
	if i.Exhausted != "" {
		t.line("%9sno rewind: %s", "", plain(i.Exhausted))
	}
	colour, how := red, string(e.Outcome)
	switch e.Outcome {
	case audit.Safe:
		colour = green
	case audit.Accepted, audit.Refused, audit.Cut:
		colour = yellow
	case "":
		how = "(the log breaks off)"
	}
	t.line("%9s-> %s", "", t.paint(colour, how))
}

// changes are what an action brings for what follows.
func (t *timeline) changes(guide *audit.Text, span int, force *audit.Text, ban []int32, plan string) {
	if guide != nil {
		forSpan := ""
		if span > 0 {
			forSpan = fmt.Sprintf(" for %d tokens", span)
		}
		t.line("%9sguidance %s%s", "", strconv.Quote(string(guide.Text)), forSpan)
	}
	if force != nil {
		t.line("%9sforced %s", "", strconv.Quote(string(force.Text)))
	}
	if len(ban) > 0 {
		t.line("%9sbanned tokens %v", "", ban)
	}
	if plan != "" {
		t.line("%9splan %s", "", plain(plan))
	}
}

func (t *timeline) scores(list []audit.Score) string {
	var b strings.Builder
	for _, s := range list {
		one := fmt.Sprintf("%s %.4g", plain(s.Monitor), s.Score)
		if s.Flag {
			one = t.paint(red, one+"!")
		}
		b.WriteString("  " + one)
		if s.Note != "" {
			b.WriteString(" (" + plain(s.Note) + ")")
		}
	}
	return b.String()
}

// trace prints every step of one trace.
func (t *timeline) trace(one []byte) error {
	g, err := trace.Read(bytes.NewReader(one))
	if err != nil && !errors.Is(err, trace.ErrBreaksOff) {
		return err
	}
	t.head("", g.Start.Model, g.Start.Hash, g.Start.Config.Seed, g.Start.Config.HoldBack, fmt.Sprintf("prompt of %d tokens", len(g.Start.Prompt)))
	for i := range g.Steps {
		t.step(&g.Steps[i])
	}
	if err != nil {
		t.line("  %s", t.paint(yellow, plain(err.Error())))
		return nil
	}
	t.line("%7s  %d tokens, %s; %d rewinds, %d tokens thrown away", "end", len(g.End.Tokens), plain(g.End.Finish), g.End.Rewinds, g.End.Discarded)
	return nil
}

func (t *timeline) step(s *trace.Step) {
	var scores []audit.Score
	for _, v := range s.Verdicts {
		scores = append(scores, audit.Score(v))
	}
	piece := strconv.Quote(string(s.Piece))
	if s.End {
		piece = "(end)"
	}
	if s.Forced {
		piece += " forced"
	}
	what := ""
	switch {
	case s.Action.Kind != "commit":
		what = "  " + t.paint(yellow, fmt.Sprintf("%s %d", plain(s.Action.Kind), s.Rewound)) + " " + plain(s.Action.Reason)
	case s.Action.Reason != "":
		what = "  " + plain(s.Action.Reason)
	}
	t.line("%7d  %-14s%s%s", s.Index, piece, t.scores(scores), what)
	for _, f := range s.Faults {
		t.line("%9s%s %s %s: %s", "", t.paint(red, "fault"), plain(f.Part), plain(f.Name), plain(f.Error))
	}
}
