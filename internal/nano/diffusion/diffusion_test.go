package diffusion

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/internal/nano/chat"
)

func TestGenerateIsDeterministicAndSolvable(t *testing.T) {
	seen := map[Task]int{}
	for i := range uint64(3000) {
		p := Generate(3, i)
		if p != Generate(3, i) {
			t.Fatalf("puzzle %d differs the second time", i)
		}
		if v := p.Check(p.Solution); !v.Solved {
			t.Fatalf("puzzle %d, %+v: its own solution is refused: %s", i, p, v.Why)
		}
		if chat.SplitOf(p.Key()) != chat.Train {
			t.Fatalf("puzzle %d, %+v, is not of the training split", i, p)
		}
		seen[p.Task]++
	}
	for _, s := range specs() {
		if got := float64(seen[s.task]) / 3000; math.Abs(got-s.part) > 0.03 {
			t.Errorf("%s is %.3f of the puzzles, want %.2f", s.task, got, s.part)
		}
	}
}

func TestProbesAreHeldOut(t *testing.T) {
	for _, s := range specs() {
		for _, split := range []chat.Split{chat.Train, chat.Validation, chat.Test} {
			probes, err := Probes(s.task, split, 1, 200)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range probes {
				if chat.SplitOf(p.Key()) != split || p.Blanks() != s.cells-s.givens || !p.Check(p.Solution).Solved {
					t.Fatalf("%s probe %+v: %d blanks, split %s", split, p, p.Blanks(), chat.SplitOf(p.Key()))
				}
			}
		}
	}
	if _, err := Probes("chess", chat.Test, 1, 1); err == nil {
		t.Error("an unknown task was accepted")
	}
}

// TestCheckersNoticeOneCell changes one cell of a solution: no task has two
// solutions that differ in a single cell.
func TestCheckersNoticeOneCell(t *testing.T) {
	const alphabet = "123456abcdefgh([{)]}RGBY/_ "
	r := rand.New(rand.NewPCG(5, 5))
	for i := range uint64(4000) {
		p := Generate(9, i)
		p.Text = strings.Repeat(string(Blank), len(p.Text))
		answer := []byte(p.Solution)
		at, c := r.IntN(len(answer)), alphabet[r.IntN(len(alphabet))]
		if p.Task == Ring || answer[at] == c {
			continue // a ring may have two solutions one cell apart
		}
		answer[at] = c
		if p.Check(string(answer)).Solved {
			t.Fatalf("%s: %s was accepted, one cell away from %s", p.Task, answer, p.Solution)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		task         Task
		text, answer string
		want         string // part of the reason, empty for solved
	}{
		{Latin4, "1___/____/____/____", "1234/2143/3412/4321", ""},
		{Latin4, "2___/____/____/____", "1234/2143/3412/4321", "given was '2'"},
		{Latin4, "1___/____/____/____", "1234/2143/3412/4312", "row 4, column 3: a second 1"},
		{Latin4, "1___/____/____/____", "1235/2143/3412/4321", "no digit"},
		{Latin4, "1___/____/____/____", "1234/2143/3412/432", "18 bytes"},
		{Brackets16, "________________", "([{}])()[]{}(())", ""},
		{Brackets16, "________________", "([{]})()[]{}(())", "closes nothing"},
		{Brackets16, "________________", "([{}])()[]{}((()", "2 brackets stay open"},
		{Brackets16, "________________", "([{}])()[]{}(a))", "no bracket"},
		{Echo, "________________", "abcdefghabcdefgh", ""},
		{Echo, "________________", "abcdefggabcdefgg", "there twice"},
		{Echo, "________________", "abcdefghabcdefhg", "is echoed by"},
		{Echo, "________________", "abcdefgiabcdefgi", "none of"},
		{Ring, "________________", "RGBYRGBYRGBYRGBY", ""},
		{Ring, "________________", "RGBRGBRGBRGBRGBR", "also at 0"},
		{Ring, "________________", "RGBYRGBYRGBYRGRY", "also at"},
		{Ring, "________________", "RGBYRGBYRGBYRGBx", "none of"},
		{"chess", "_", "x", "no task"},
	} {
		v := Puzzle{Task: c.task, Text: c.text}.Check(c.answer)
		if v.Solved != (c.want == "") || !strings.Contains(v.Why, c.want) {
			t.Errorf("%s %s: %+v, want %q", c.task, c.answer, v, c.want)
		}
	}
}

// TestWritersReachEverything counts small solution spaces: all 576 squares occur,
// and the 14 shapes of balanced texts of 8 brackets occur evenly.
func TestWritersReachEverything(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	squares, shapes := map[string]int{}, map[string]int{}
	fold := strings.NewReplacer("[", "(", "{", "(", "]", ")", "}", ")")
	for range 14000 {
		squares[latin(4)(r)]++
		shapes[fold.Replace(brackets(8)(r))]++
	}
	if len(squares) != 576 {
		t.Errorf("%d different squares, want 576", len(squares))
	}
	for shape, n := range shapes {
		if n < 850 || n > 1150 {
			t.Errorf("%s occurs %d times in 14000, want about 1000", shape, n)
		}
	}
	if len(shapes) != 14 {
		t.Errorf("%d shapes, want 14", len(shapes))
	}
}

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, 1, 5, 25); err != nil {
		t.Fatal(err)
	}
	dec, n := json.NewDecoder(&b), uint64(5)
	for ; dec.More(); n++ {
		var p Puzzle
		if err := dec.Decode(&p); err != nil || p != Generate(1, n) {
			t.Fatalf("line %d is %+v, error %v", n, p, err)
		}
	}
	if n != 25 {
		t.Errorf("lines up to %d, want 25", n)
	}
	if err := Write(full{}, 1, 0, 1); err == nil {
		t.Error("a failing writer was not reported")
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }

func TestTally(t *testing.T) {
	var tally Tally
	p := Puzzle{Task: Echo, Text: strings.Repeat("_", 16)}
	for i := range 10 {
		answer := "abcdefghabcdefgh"
		if i < 2 {
			answer = "abcdefghabcdefgg"
		}
		tally.Add(p, 4, answer)
	}
	r := tally.Rate(Echo, 4)
	low, high := r.Interval()
	// Wilson's interval for 8 of 10, from his formula by hand.
	if r != (Rate{8, 10}) || math.Abs(low-0.4902) > 1e-4 || math.Abs(high-0.9433) > 1e-4 {
		t.Errorf("%+v, interval %.4f to %.4f", r, low, high)
	}
	if low, high := (Rate{}).Interval(); low != 0 || high != 1 {
		t.Errorf("no puzzles: interval %v to %v, want 0 to 1", low, high)
	}
	if !strings.Contains(tally.String(), "| echo | 10 | 0.800 (0.490-0.943) |") {
		t.Errorf("table:\n%s", &tally)
	}
}

func TestTallyStringer(t *testing.T) {
	var tally Tally
	if got := tally.String(); !strings.HasPrefix(got, "| task | puzzles |") {
		t.Errorf("an empty tally prints %q", got)
	}
}

func TestPromisesLeaveRoomForRemasking(t *testing.T) {
	if len(Promises()) < 3 {
		t.Errorf("%d promises, want at least 3", len(Promises()))
	}
	for _, p := range Promises() {
		if p.Many < 0.9 || p.Many-p.Few < 0.15-1e-9 {
			t.Errorf("%s: %.2f in few steps and %.2f in 16, want at least 0.9 and a gap of 0.15", p.Task, p.Few, p.Many)
		}
	}
}
