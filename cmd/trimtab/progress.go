package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
)

// statusLine is one line on a terminal that is written over. On anything else
// it prints nothing.
type statusLine struct {
	w     io.Writer // nil when there is no terminal
	width int
	now   func() time.Time
	last  time.Time
	shown bool
}

// redraw is how often the line changes, at most.
const redraw = 100 * time.Millisecond

func newStatusLine(a *app) *statusLine {
	s := &statusLine{width: a.width, now: a.now}
	if a.errTTY {
		s.w = a.err
	}
	return s
}

// set shows the text. Updates that follow too fast are left out unless forced.
func (s *statusLine) set(text string, force bool) {
	if s.w == nil || (!force && s.now().Sub(s.last) < redraw) {
		return
	}
	s.last, s.shown = s.now(), true
	if r := []rune(text); len(r) > s.width-1 {
		text = string(r[:max(s.width-1, 0)])
	}
	fmt.Fprintf(s.w, "\r\x1b[K%s", text)
}

// clear removes the line.
func (s *statusLine) clear() {
	if s.w != nil && s.shown {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = false
	}
}

// bar draws a share between 0 and 1, such as "[#####-----]  50%".
func bar(share float64, width int) string {
	share = min(max(share, 0), 1)
	n := int(share * float64(width))
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", n), strings.Repeat("-", width-n), int(share*100))
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// installProgress shows an installation: a bar on a terminal, else one line a
// stage.
type installProgress struct {
	line  *statusLine
	plain io.Writer
}

func newInstallProgress(a *app) *installProgress {
	p := &installProgress{line: newStatusLine(a)}
	if !a.errTTY {
		p.plain = a.err
	}
	return p
}

var stageWords = map[libs.Stage]string{
	libs.StageVerify: "checking the files of", libs.StageDownload: "downloading",
	libs.StageCheck: "checking the hash of", libs.StageUnpack: "unpacking",
}

func (p *installProgress) report(r libs.Progress) {
	text := stageWords[r.Stage] + " " + r.Package
	if r.Stage == libs.StageDownload && r.Total > 0 {
		text += " (" + size(r.Total) + ")"
	}
	if p.plain != nil {
		if r.Done == 0 && !r.Finished {
			fmt.Fprintln(p.plain, text)
		}
		return
	}
	if r.Stage != libs.StageDownload {
		if r.Total > 0 {
			text += " " + bar(float64(r.Done)/float64(r.Total), 20)
		} else if r.Done > 0 {
			text += " " + size(r.Done)
		}
	}
	p.line.set(text, r.Done == 0 || r.Finished)
}

func (p *installProgress) end() { p.line.clear() }
