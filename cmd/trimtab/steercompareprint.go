package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Widths of the printed comparison, in terminal columns.
const (
	leastWidth = 40
	mostWidth  = 200
	gutter     = 3
)

// print shows the texts side by side and then the steered tokens one by one.
func (r *comparison) print(w io.Writer, columns int, color bool) {
	half := (min(max(columns, leastWidth), mostWidth) - gutter) / 2
	left, right := wrap(r.glyphs(0), half), wrap(r.glyphs(1), half)
	heads := [2]string{"unsteered", "steered: " + r.Expression}
	fmt.Fprintf(w, "%s%s%s\n", pad(heads[0], half), strings.Repeat(" ", gutter), heads[1])
	fmt.Fprintf(w, "%s%s%s\n", strings.Repeat("-", half), strings.Repeat(" ", gutter), strings.Repeat("-", half))
	for i := range max(len(left), len(right)) {
		var a, b []glyph
		if i < len(left) {
			a = left[i]
		}
		if i < len(right) {
			b = right[i]
		}
		line := pad(r.paint(a, false), half) + strings.Repeat(" ", gutter) + r.paint(b, color)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	r.printTokens(w, color)
}

// printTokens is a row for each token of the steered text.
func (r *comparison) printTokens(w io.Writer, color bool) {
	if len(r.Tokens) == 0 {
		fmt.Fprintln(w, "\nthe steered answer is empty")
		return
	}
	fmt.Fprintf(w, "\n%5s  %-20s  %8s  %7s  %9s\n", "token", "steered text", "KL", "steered", "unsteered")
	for i, t := range r.Tokens {
		text := []rune(fmt.Sprintf("%q", t.Text))
		if len(text) > 20 {
			text = append(text[:19], '…')
		}
		cell := pad(string(text), 20)
		if color {
			cell = shade(cell, t.KL)
		}
		mark := ""
		if i == r.Common && i < r.Unsteered.Count {
			mark = "  the texts part here"
		}
		fmt.Fprintf(w, "%5d  %s  %8.4f  %7.3f  %9.3f%s\n", i, cell, t.KL, math.Exp(t.Steered), math.Exp(t.Unsteered), mark)
	}
	fmt.Fprintf(w, "\nKL(steered || unsteered): mean %.4f, largest %.4f nats; %d of %d tokens before the texts part; seed %d\n", r.MeanKL, r.MaxKL, r.Common, r.Steered.Count, r.Seed)
}

// glyph is a character with the token it begins in.
type glyph struct {
	r     rune
	token int
	wide  int
}

// glyphs are the characters of a side. Characters that would disturb a terminal
// become U+FFFD, tabs become blanks.
func (r *comparison) glyphs(side int) (out []glyph) {
	text := bytes.Join(r.pieces[side], nil)
	token, end := 0, 0
	if len(r.pieces[side]) > 0 {
		end = len(r.pieces[side][0])
	}
	for at := 0; at < len(text); {
		c, n := utf8.DecodeRune(text[at:])
		for at >= end && token+1 < len(r.pieces[side]) {
			token++
			end += len(r.pieces[side][token])
		}
		switch {
		case c == '\t':
			c = ' '
		case c == '\r':
			at += n
			continue
		case c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)):
			c = utf8.RuneError
		}
		out = append(out, glyph{c, token, columnsOf(c)})
		at += n
	}
	return out
}

// columnsOf is how wide a terminal shows a character.
func columnsOf(c rune) int {
	if unicode.In(c, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(c).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// wrap breaks text into lines of at most so many columns, at blanks where it
// can.
func wrap(text []glyph, columns int) (lines [][]glyph) {
	for len(text) > 0 {
		used, end, blank := 0, 0, -1
		for end < len(text) && text[end].r != '\n' && used+text[end].wide <= columns {
			if text[end].r == ' ' {
				blank = end
			}
			used += text[end].wide
			end++
		}
		switch {
		case end == len(text):
			return append(lines, text)
		case text[end].r == '\n' || text[end].r == ' ':
			lines, text = append(lines, text[:end]), text[end+1:]
		case blank > 0:
			lines, text = append(lines, text[:blank]), text[blank+1:]
		default:
			end = max(end, 1)
			lines, text = append(lines, text[:end]), text[end:]
		}
	}
	return lines
}

// paint is a line as a string, with colours by the tokens' divergences.
func (r *comparison) paint(line []glyph, color bool) string {
	var b strings.Builder
	for at := 0; at < len(line); {
		end := at
		for end < len(line) && line[end].token == line[at].token {
			end++
		}
		var part strings.Builder
		for _, g := range line[at:end] {
			part.WriteRune(g.r)
		}
		if t := line[at].token; color && t < len(r.Tokens) {
			b.WriteString(shade(part.String(), r.Tokens[t].KL))
		} else {
			b.WriteString(part.String())
		}
		at = end
	}
	return b.String()
}

// shade puts a text on a background that is the redder the larger the
// divergence: none below 0.01 nats, then a step for each factor of about three.
func shade(text string, kl float64) string {
	steps := []struct {
		from float64
		code int // of the 256 colours
	}{{3, 160}, {1, 203}, {0.3, 216}, {0.1, 223}, {0.01, 230}}
	for _, s := range steps {
		if kl >= s.from {
			return fmt.Sprintf("\x1b[30;48;5;%dm%s\x1b[0m", s.code, text)
		}
	}
	return text
}

// pad fills up to so many columns; it is for text without colours.
func pad(s string, columns int) string {
	used := 0
	for _, c := range s {
		used += columnsOf(c)
	}
	return s + strings.Repeat(" ", max(0, columns-used))
}
