package diffusion

import "fmt"

// Verdict judges an answer to a puzzle.
type Verdict struct {
	Solved bool
	Why    string // what is wrong, empty when solved
}

// Check judges a filled puzzle: every given cell must stand as it was, and the
// rules of the task must hold. Any solution will do.
func (p Puzzle) Check(answer string) Verdict {
	s, err := find(p.Task)
	if err != nil {
		return Verdict{Why: err.Error()}
	}
	if len(answer) != len(p.Text) {
		return Verdict{Why: fmt.Sprintf("%d bytes, want %d", len(answer), len(p.Text))}
	}
	for i := range answer {
		if p.Text[i] != Blank && answer[i] != p.Text[i] {
			return Verdict{Why: fmt.Sprintf("cell %d is %q, given was %q", i, answer[i], p.Text[i])}
		}
	}
	why := s.fault(answer)
	return Verdict{why == "", why}
}
