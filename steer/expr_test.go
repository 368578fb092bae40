package steer

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func dose(x float32) *float32 { return &x }

func TestParseExpr(t *testing.T) {
	for _, c := range []struct {
		text, canonical string
		want            []ExprTerm
	}{
		{"polite", "polite", []ExprTerm{{Name: "polite", Column: 1}}},
		{"polite:0.6@8-14 + !verbose", "polite:0.6@8-14 + !verbose", []ExprTerm{
			{Name: "polite", Dose: dose(0.6), Layers: []LayerRange{{8, 14}}, Column: 1}, {Name: "verbose", Project: true, Column: 20}}},
		{" a[0:32]+b [ - 1 : ] ", "a[0:32] + b[-1:]", []ExprTerm{
			{Name: "a", From: ptr(0), To: ptr(32), Column: 2}, {Name: "b", From: ptr(-1), Column: 10}}},
		{"a#answer#think:-1e-3@5,0-2", "a:-0.001@5,0-2#answer#think", []ExprTerm{
			{Name: "a", Dose: dose(-0.001), Layers: []LayerRange{{5, 5}, {0, 2}}, Phases: PhaseAnswer | PhaseThink, Column: 1}}},
		{"! höflich-2.v_1 : 2 [ : -3 ]", "!höflich-2.v_1:2[:-3]", []ExprTerm{
			{Name: "höflich-2.v_1", Project: true, Dose: dose(2), To: ptr(-3), Column: 3}}},
		{"a[ : ] + b", "a[:] + b", []ExprTerm{{Name: "a", Everywhere: true, Column: 1}, {Name: "b", Column: 10}}},
		{"a:1E3 + a:0", "a:1000 + a:0", []ExprTerm{{Name: "a", Dose: dose(1000), Column: 1}, {Name: "a", Dose: dose(0), Column: 9}}},
	} {
		e, err := ParseExpr(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if d := cmp.Diff(c.want, e.Terms); d != "" {
			t.Errorf("%q: %s", c.text, d)
		}
		if got := e.String(); got != c.canonical {
			t.Errorf("%q is written %q, want %q", c.text, got, c.canonical)
		}
	}
}

func TestParseExprFaults(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		want   string
	}{
		{"", 1, "want the name of a vector, not the end"},
		{"  + a", 3, "want the name of a vector, not '+'"},
		{"a +", 4, "want the name of a vector, not the end"},
		{"!!a", 2, "want the name of a vector, not '!'"},
		{"8:a", 1, "want the name of a vector, not '8'"},
		{"a b", 3, `want "+", ":", "@", "[", "#" or the end, not 'b'`},
		{"ää / b", 4, "not '/'"},
		{"a:", 3, "want a dose, not the end"},
		{"a:+1", 3, "want a dose, not '+'"},
		{"a:.5", 3, "want a dose, not '.'"},
		{"a:1.", 5, "want a digit after the point"},
		{"a:1e", 5, "want an exponent, not the end"},
		{"a:NaN", 3, "want a dose, not 'N'"},
		{"a:1e99", 3, "dose 1e99 is out of range"},
		{"a:1:2", 4, "a second dose"},
		{"a@", 3, "want a block, not the end"},
		{"a@-3", 3, "want a block, not '-'"},
		{"a@3-", 5, "want the last block, not the end"},
		{"a@9-3", 3, "blocks 9-3 run backwards"},
		{"a@512", 3, "a block is 512, the limit is 511"},
		{"a@99999999999999999999", 3, "the limit is 511"},
		{"a@1-5,3", 7, "block 3 is named twice"},
		{"a@1@2", 4, "a second range of blocks"},
		{"a[", 3, "want an offset, not the end"},
		{"a[1", 4, `want ":" in the window, not the end`},
		{"a[1:2", 6, `want "]" in the window, not the end`},
		{"a[3:3]", 2, "window [3:3] is empty"},
		{"a[1:][2:]", 6, "a second window"},
		{"a[:][2:]", 5, "a second window"},
		{"a[9999999999:]", 3, "the limit is 1073741824"},
		{"a#", 3, `unknown phase "", want one of prompt, answer, think, constrained`},
		{"a#reply", 3, `unknown phase "reply"`},
		{"a#answer#answer", 10, `phase "answer" is named twice`},
		{"a\x00", 2, "not '\\x00'"},
		{"a \xff", 3, "not '\ufffd'"},
		{strings.Repeat("a+", MaxExprTerms) + "a", 2*MaxExprTerms + 1, "more than 64 terms"},
		{strings.Repeat("a", MaxExprLen+1), 0, "4097 bytes, the limit is 4096"},
	} {
		_, err := ParseExpr(c.text)
		var fault *ExprError
		if !errors.As(err, &fault) || fault.Column != c.column || !strings.Contains(fault.Text, c.want) {
			t.Errorf("%.40q: %v, want column %d: %s", c.text, err, c.column, c.want)
		}
	}
}

// TestExprRoundTrip: whatever an expression says, its text says.
func TestExprRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 2000 {
		e := &Expr{}
		for range 1 + r.IntN(4) {
			e.Terms = append(e.Terms, randomTerm(r))
		}
		again, err := ParseExpr(e.String())
		if err != nil {
			t.Fatalf("%q: %v", e, err)
		}
		if d := cmp.Diff(e, again, cmpopts.IgnoreFields(ExprTerm{}, "Column")); d != "" {
			t.Fatalf("%q: %s", e, d)
		}
	}
}

func randomTerm(r *rand.Rand) ExprTerm {
	letters := []rune("abcZé中-._09")
	name := []rune{letters[r.IntN(6)]}
	for range r.IntN(8) {
		name = append(name, letters[r.IntN(len(letters))])
	}
	t := ExprTerm{Name: string(name), Project: r.IntN(3) == 0, Phases: Phase(r.IntN(16))}
	if x := math.Float32frombits(r.Uint32()); r.IntN(2) == 0 && finite(x) {
		t.Dose = &x
	}
	for at := r.IntN(9); at < 500 && r.IntN(3) > 0; at += 2 {
		last := min(at+r.IntN(200), 511)
		t.Layers = append(t.Layers, LayerRange{at, last})
		at = last
	}
	if r.IntN(2) == 0 {
		t.From = ptr(r.IntN(2000) - 1000)
	}
	if r.IntN(2) == 0 {
		t.To = ptr(1000 + r.IntN(maxOffset-1000))
	}
	t.Everywhere = t.From == nil && t.To == nil && r.IntN(2) == 0
	return t
}

// FuzzParseExpr: no text crashes the parser, and what it accepts comes back
// from its own text.
func FuzzParseExpr(f *testing.F) {
	for _, seed := range []string{"polite:0.6@8-14 + !verbose", "a[-1:]#answer + b[0:32]:-1e-3", "é@1,3-5", "a[:", "!", "a:1.5e-9@511"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExpr(text)
		if err != nil {
			var fault *ExprError
			if !errors.As(err, &fault) || fault.Column < 0 || fault.Column > len([]rune(text))+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if e.String() == "" {
			t.Fatalf("%q says nothing", text)
		}
		if len(e.String()) > MaxExprLen {
			return // 1e38 is shorter than its digits
		}
		again, err := ParseExpr(e.String())
		if err != nil {
			t.Fatalf("%q is written %q: %v", text, e, err)
		}
		if d := cmp.Diff(e, again, cmpopts.IgnoreFields(ExprTerm{}, "Column")); d != "" {
			t.Fatalf("%q is written %q: %s", text, e, d)
		}
		vectors := map[string]*Vector{"a": {Directions: map[int][]float32{0: {1}, 5: {1}}}}
		if p, err := e.Plan(vectors); err == nil {
			if err := p.Check(MaxVectorLayers, 1); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

func TestExprPlan(t *testing.T) {
	vectors := map[string]*Vector{
		"polite":  {Directions: map[int][]float32{1: {1, 0}, 2: {2, 0}, 3: {3, 0}}, Dose: 0.5},
		"refusal": {Directions: map[int][]float32{2: {0, 1}}, Op: Add, Dose: 8},
		"verbose": {Directions: map[int][]float32{2: {0, 1}, 3: {0, 2}}, Op: Project, Dose: 0.9},
		"broken":  {},
	}
	at := func(layer int, op Op, scale float32, v ...float32) Intervention {
		return Intervention{Site: Site{Layer: layer}, Op: op, Vector: v, Scale: scale}
	}
	in := func(iv Intervention, w When) Intervention { iv.When = w; return iv }
	for _, c := range []struct {
		text string
		want []Intervention
	}{
		{"polite", []Intervention{at(1, Add, 0.5, 1, 0), at(2, Add, 0.5, 2, 0), at(3, Add, 0.5, 3, 0)}},
		{"polite:-2@3,1", []Intervention{at(3, Add, -2, 3, 0), at(1, Add, -2, 1, 0)}},
		{"refusal", []Intervention{at(2, Add, 8, 0, 1)}},
		{"!refusal", []Intervention{at(2, Project, 1, 0, 1)}},
		{"!refusal:0.5@0-2", []Intervention{at(0, Project, 0.5, 0, 1), at(1, Project, 0.5, 0, 1), at(2, Project, 0.5, 0, 1)}},
		{"verbose@3", []Intervention{at(3, Project, 0.9, 0, 2)}},
		{"!verbose@3", []Intervention{at(3, Project, 0.9, 0, 2)}},
		{"refusal[-1:8]#answer#prompt + polite@1", []Intervention{
			in(at(2, Add, 8, 0, 1), When{From: ptr(-1), To: ptr(8), Phases: PhaseAnswer | PhasePrompt}), at(1, Add, 0.5, 1, 0)}},
	} {
		e, err := ParseExpr(c.text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Plan(vectors)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var got []Intervention
		for i := range p.Len() {
			got = append(got, *p.At(i))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q: %s", c.text, d)
		}
	}
	e, _ := ParseExpr("polite@1-4 + nobody + refusal@1 + broken + polite:1e38")
	_, err := e.Plan(vectors)
	for _, want := range []string{
		`column 1: vector "polite" has no direction for block 4`, `column 14: no vector is named "nobody", only broken, polite, refusal, verbose`,
		`column 23: vector "refusal" has no direction for block 1`, `column 35: vector "broken": the vector has no directions`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	vectors["huge"] = &Vector{Directions: map[int][]float32{0: {1e30}}}
	e, _ = ParseExpr("huge:1e38")
	if _, err := e.Plan(vectors); err == nil || !strings.Contains(err.Error(), `intervention 0 (add at 0.post): dose 1e+38 times`) {
		t.Errorf("an overflow: %v", err)
	}
	e = &Expr{Terms: []ExprTerm{{Name: "polite", Layers: []LayerRange{{0, 1 << 40}}}, {Name: "polite", Layers: []LayerRange{{1, 1}, {1, 1}}}}}
	if _, err := e.Groups(vectors); err == nil || !strings.Contains(err.Error(), "want a range from 0 to 511") || !strings.Contains(err.Error(), "block 1 is named twice") {
		t.Errorf("a literal with bad blocks: %v", err)
	}
}

// TestExprDocs: the grammar and the examples stand in docs/steering.md as they
// stand here, and the examples parse.
func TestExprDocs(t *testing.T) {
	source, err := os.ReadFile("expr.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../docs/steering.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(source)) {
		code, ok := strings.CutPrefix(line, "//\t")
		if !ok {
			continue
		}
		lines++
		if !strings.Contains(string(docs), "\n"+code) {
			t.Errorf("docs/steering.md lacks the line %q", code)
		}
		if !strings.Contains(code, " = ") {
			if _, err := ParseExpr(code); err != nil {
				t.Errorf("%q: %v", code, err)
			}
		}
	}
	if lines < 12 {
		t.Errorf("the documentation has %d lines of code", lines)
	}
	if _, err := ParseExpr("!refusal@0-27 + polite:0.8[:8] + polite:0.2[8:]"); err != nil {
		t.Error(err)
	}
}
