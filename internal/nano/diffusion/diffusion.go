// Package diffusion writes the puzzles of nano-diffusion and judges its
// solutions.
//
// The model for the reader's head is a row of cells, some given and some blank.
// A masked-diffusion model fills blanks in any order, several at a time; the
// puzzles are such that cells filled at the same time do not know of each other
// and clash, while one after the other they fit. So accuracy grows with the
// number of steps, and a remasking policy has something to win back. The tasks:
//
//   - [Latin4], [Latin6]: Latin squares; no row and no column repeats a digit.
//   - [Brackets16], [Brackets32]: three kinds of brackets, balanced.
//   - [Echo]: a permutation of eight letters, said twice.
//   - [Ring]: four colours on a ring of sixteen; any three neighbours differ.
//
// Most puzzles have many solutions. [Puzzle.Check] accepts every one of them, and
// each puzzle has at least one because it was made from one.
//
// Everything is a pure function of its arguments: puzzle i of seed s is the same
// on every machine. Puzzles are dealt to train, validation and test by hash (see
// [Puzzle.Key]), and [Write] only ever uses those of train.
package diffusion

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/trimtab/trimtab/internal/nano/chat"
)

// Blank stands for a cell to fill in the text of a puzzle. In a canvas it is the
// model's mask token.
const Blank = '_'

// Task names a kind of puzzle.
type Task string

// The tasks.
const (
	Latin4     Task = "latin4"
	Latin6     Task = "latin6"
	Brackets16 Task = "brackets16"
	Brackets32 Task = "brackets32"
	Echo       Task = "echo"
	Ring       Task = "ring"
)

// spec is what a task consists of.
type spec struct {
	task   Task
	cells  int                     // cells of a solution, separators not counted
	givens int                     // cells given in a probe
	part   float64                 // part of the training puzzles
	solve  func(*rand.Rand) string // draws a solution
	fault  func(string) string     // says which rule a full text breaks, or nothing
}

// specs lists the tasks; the parts sum to one. The longer ones are slower to
// learn and get more.
func specs() []spec {
	return []spec{
		{Latin4, 16, 4, 0.13, latin(4), latinFault(4)},
		{Latin6, 36, 14, 0.30, latin(6), latinFault(6)},
		{Brackets16, 16, 4, 0.13, brackets(16), bracketsFault(16)},
		{Brackets32, 32, 10, 0.22, brackets(32), bracketsFault(32)},
		{Echo, 16, 3, 0.09, echo, echoFault},
		{Ring, 16, 4, 0.13, ring, ringFault},
	}
}

// Tasks lists every task in a fixed order.
func Tasks() []Task {
	var out []Task
	for _, s := range specs() {
		out = append(out, s.task)
	}
	return out
}

// find returns the parts of a task.
func find(t Task) (spec, error) {
	for _, s := range specs() {
		if s.task == t {
			return s, nil
		}
	}
	return spec{}, fmt.Errorf("no task %q: choose one of %q", t, Tasks())
}

// Puzzle is one task to solve: a text of which some cells are [Blank], and the
// solution it was made from. Other solutions are as good.
type Puzzle struct {
	Task     Task   `json:"task"`
	Text     string `json:"puzzle"`
	Solution string `json:"solution"`
}

// Blanks is the number of cells to fill.
func (p Puzzle) Blanks() int { return strings.Count(p.Text, string(Blank)) }

// Canvas is the puzzle as nano-diffusion reads it, to be encoded with control
// words: a token that names the task, one token for every byte of the text with
// "<|mask|>" for a blank, and "<|end|>". The pieces of the filled canvas are the
// answer, because control tokens print nothing.
func (p Puzzle) Canvas() string {
	return "<|" + string(p.Task) + "|>" + strings.ReplaceAll(p.Text, string(Blank), "<|mask|>") + "<|end|>"
}

// Key is the combination that decides which split the puzzle belongs to. It is
// the solution, so that no solution of a test puzzle was ever trained on whole;
// only the 4x4 squares, of which there are just 576, go by the puzzle's text.
func (p Puzzle) Key() string {
	if p.Task == Latin4 {
		return string(p.Task) + " " + p.Text
	}
	return string(p.Task) + " " + p.Solution
}

// maxDraws bounds the search for a puzzle of the wanted split. The rarest split
// holds one in ten, so a miss has probability 0.9^1000.
const maxDraws = 1000

// random is the generator of puzzle i of a seed.
func random(seed, i uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, i*0x9e3779b97f4a7c15+1))
}

// draw makes a puzzle of one split with the given number of given cells.
func (s spec) draw(r *rand.Rand, split chat.Split, givens int) Puzzle {
	var p Puzzle
	for range maxDraws {
		solution := s.solve(r)
		p = Puzzle{s.task, hide(r, solution, givens), solution}
		if chat.SplitOf(p.Key()) == split {
			break
		}
	}
	return p
}

// hide blanks all cells of a solution but the given number; separators stay.
func hide(r *rand.Rand, solution string, givens int) string {
	text := []byte(solution)
	var cells []int
	for i, c := range text {
		if c != separator {
			cells = append(cells, i)
		}
	}
	r.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	for _, i := range cells[min(givens, len(cells)):] {
		text[i] = Blank
	}
	return string(text)
}

// Generate returns training puzzle i of a seed: a task drawn by its part, with
// any number of given cells up to one half. It is safe for concurrent use.
func Generate(seed, i uint64) Puzzle {
	r := random(seed, i)
	list := specs()
	s, x := list[len(list)-1], r.Float64()
	for _, c := range list {
		if x -= c.part; x < 0 {
			s = c
			break
		}
	}
	return s.draw(r, chat.Train, r.IntN(s.cells/2+1))
}

// Probes returns n puzzles of one task for measurement, all with the same number
// of given cells, few enough that most have many solutions.
func Probes(t Task, split chat.Split, seed uint64, n int) ([]Puzzle, error) {
	s, err := find(t)
	if err != nil {
		return nil, err
	}
	out := make([]Puzzle, n)
	for i := range out {
		out[i] = s.draw(random(seed, uint64(i)), split, s.givens)
	}
	return out, nil
}

// Write writes training puzzles from to to-1 of a seed to w as JSON lines. It
// returns the first write error.
func Write(w io.Writer, seed, from, to uint64) error {
	enc := json.NewEncoder(w)
	for i := from; i < to; i++ {
		if err := enc.Encode(Generate(seed, i)); err != nil {
			return fmt.Errorf("write puzzle %d: %w", i, err)
		}
	}
	return nil
}
