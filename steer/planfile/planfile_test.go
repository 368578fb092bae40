package planfile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/trimtab/trimtab/steer"
)

// format is one of the two with its two directions.
type format struct {
	name   string
	encode func(*steer.Plan) ([]byte, error)
	decode func([]byte) (*steer.Plan, error)
}

var formats = []format{
	{"JSON", EncodeJSON, func(b []byte) (*steer.Plan, error) { return DecodeJSON(bytes.NewReader(b)) }},
	{"YAML", EncodeYAML, func(b []byte) (*steer.Plan, error) { return DecodeYAML(bytes.NewReader(b)) }},
}

func steps(p *steer.Plan) []steer.Intervention {
	var list []steer.Intervention
	for i := range p.Len() {
		list = append(list, *p.At(i))
	}
	return list
}

// value is any finite float32 that keeps clear of the bounds of NewPlan.
func value(r *rand.Rand) float32 {
	for {
		x := math.Float32frombits(r.Uint32())
		if a := math.Abs(float64(x)); a > 1e-6 && a < 1e6 {
			return x
		}
	}
}

func values(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = value(r)
	}
	return out
}

func maybe(r *rand.Rand) bool { return r.IntN(2) == 0 }

// random makes an intervention with any subset of the fields.
func random(r *rand.Rand) steer.Intervention {
	const width = 3
	iv := steer.Intervention{Site: steer.Site{Layer: r.IntN(90)}, Op: steer.Op(r.IntN(7)), Vector: values(r, width),
		Scale: value(r), Renorm: maybe(r), Group: r.IntN(3)}
	switch iv.Op {
	case steer.Clamp:
		iv.Min = value(r)
		iv.Max = iv.Min + 1 + float32(math.Abs(float64(iv.Min)))
	case steer.Replace:
		iv.Value = value(r)
	case steer.Rotate:
		iv.Vector, iv.Toward = []float32{1, value(r), 0}, []float32{0, 0.5, 1}
	case steer.Affine:
		rank := 1 + r.IntN(4)
		iv.Map = &steer.LowRank{Rank: rank, Down: values(r, rank*width), Up: values(r, rank*width)}
		if maybe(r) {
			iv.Vector = nil
		}
	}
	if iv.Op == steer.Ascend {
		iv.Vector, iv.Scale, iv.Ascent = nil, float32(math.Abs(float64(iv.Scale))), randomAscent(r, width)
	}
	if maybe(r) {
		from := r.IntN(100) - 50
		iv.When.From = &from
	}
	if maybe(r) {
		to := 60 + r.IntN(100)
		iv.When.To = &to
	}
	if maybe(r) {
		iv.When.Phases = steer.Phase(r.IntN(16))
		iv.When.Tokens = []int32{int32(r.Uint32()), 0}
	}
	if maybe(r) {
		iv.Schedule = steer.Schedule{Kind: steer.ScheduleKind(1 + r.IntN(2)), Start: value(r) / 1e6, End: value(r) / 1e6, Over: 1 + r.IntN(99)}
		if iv.Op == steer.Ascend {
			iv.Schedule.Start, iv.Schedule.End = r.Float32(), r.Float32()+0.1
		}
	}
	if maybe(r) {
		iv.Gate = &steer.Gate{Site: steer.Site{Layer: r.IntN(iv.Site.Layer + 1)}, Kind: steer.GateKind(r.IntN(2)),
			Vector: values(r, width), Threshold: r.Float32()*0.9 + 0.01, Below: maybe(r)}
		if iv.Gate.Kind == steer.Logistic {
			iv.Gate.Bias = value(r)
		}
	}
	return iv
}

func randomAscent(r *rand.Rand, width int) *steer.Ascent {
	layer := func(in, out int) steer.Dense {
		return steer.Dense{In: in, Out: out, Weight: values(r, in*out), Bias: values(r, out)}
	}
	v := [...]*steer.Value{
		{Kind: steer.Linear, Norm: maybe(r), Layers: []steer.Dense{layer(width, 1)}},
		{Kind: steer.Facets, Layers: []steer.Dense{layer(width, 5)}},
		{Kind: steer.MLP, Norm: maybe(r), Layers: []steer.Dense{layer(width, 4), layer(4, 2), layer(2, 1)}},
	}[r.IntN(3)]
	return &steer.Ascent{Value: v, Threshold: value(r), Margin: r.Float32(), Radius: r.Float32() + 0.1, Absolute: maybe(r),
		Steps: 1 + r.IntN(steer.MaxAscentSteps), Always: maybe(r)}
}

// TestRoundTrip: any plan comes back from both formats, to the bit.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 400 {
		var list []steer.Intervention
		for range r.IntN(4) {
			list = append(list, random(r))
		}
		p, err := steer.NewPlan(list...)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range formats {
			data, err := f.encode(p)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			again, err := f.decode(data)
			if err != nil {
				t.Fatalf("%s: %v in\n%s", f.name, err, data)
			}
			if d := cmp.Diff(steps(p), steps(again), cmpopts.EquateEmpty()); d != "" || p.Fingerprint() != again.Fingerprint() {
				t.Fatalf("%s: %s in\n%s", f.name, d, data)
			}
			if twice, err := f.encode(again); err != nil || !bytes.Equal(data, twice) {
				t.Fatalf("%s: written twice\n%s\n%s", f.name, data, twice)
			}
		}
	}
	for _, f := range formats {
		data, err := f.encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := f.decode(data); err != nil || p.Len() != 0 {
			t.Errorf("%s: the nil plan came back as %v, %v", f.name, p, err)
		}
	}
}

// mustExample reads the plan in the package's documentation.
func mustExample(t *testing.T) *steer.Plan {
	t.Helper()
	source, err := os.ReadFile("planfile.go")
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for line := range bytes.Lines(source) {
		if code, ok := bytes.CutPrefix(line, []byte("//\t")); ok {
			text = append(text, code...)
		}
	}
	p, err := DecodeYAML(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return p
}

func TestExample(t *testing.T) {
	p := mustExample(t)
	from, to := -1, 32
	want := []steer.Intervention{{
		Site: steer.Site{Layer: 12}, Vector: []float32{0.25, -1.5}, Scale: 0.6, Renorm: true, Group: 1,
		When:     steer.When{From: &from, To: &to, Phases: steer.PhaseAnswer | steer.PhaseThink, Tokens: []int32{42}},
		Schedule: steer.Schedule{Kind: steer.Decay, Start: 1, End: 0.2, Over: 16},
		Gate:     &steer.Gate{Site: steer.Site{Layer: 8}, Vector: []float32{1, 0.5}, Threshold: 0.3},
	}}
	if d := cmp.Diff(want, steps(p)); d != "" {
		t.Error(d)
	}
}

// one is a JSON plan of one intervention; it is YAML as well.
func one(fields string) string { return `{"version": 1, "interventions": [{` + fields + `}]}` }

func TestFaults(t *testing.T) {
	const add = `"layer": 1, "op": "add", "scale": 1, "vector": [1]`
	for _, c := range []struct{ name, text, json, yaml string }{
		{"nothing", "", "the file is empty", "the file is empty"},
		{"no plan", "3", "cannot unmarshal number", "cannot unmarshal !!int"},
		{"no version", `{"interventions": []}`, "version is 0, this program reads 1", "version is 0"},
		{"another version", `{"version": 2, "interventions": []}`, "version is 2, this program reads 1", "version is 2"},
		{"no list", `{"version": 1}`, "there is no list of interventions", "there is no list of interventions"},
		{"unknown field", one(add + `, "colour": 1`), `unknown field "colour"`, "field colour not found"},
		{"unknown field inside", one(add + `, "when": {"till": 3}`), `unknown field "till"`, "field till not found"},
		{"another case", one(add + `, "Renorm": true`), `unknown field "Renorm", fields are in lower case`, "field Renorm not found"},
		{"a field twice", one(add + `, "layer": 2`), `field "layer" stands twice`, `"layer" already`},
		{"something behind", one(add) + "\n---\n{}", "something follows the plan", "a second document follows"},
		{"cut off", one(add)[:50], "unexpected", "yaml: line 1: did not find expected"},
		{"deep", strings.Repeat(`{"a":`, 9), "nested deeper than 8 levels", "yaml:"},
		{"a word for a number", one(`"layer": "x", "op": "add", "scale": 1, "vector": [1]`), "cannot unmarshal string", `want a whole number, not "x"`},
		{"half a layer", one(`"layer": 1.5, "op": "add", "scale": 1, "vector": [1]`), "cannot unmarshal number 1.5", `want a whole number, not "1.5"`},
		{"nothing given", one(""), "op is missing\nlayer is missing\nscale is missing", "op is missing\nlayer is missing\nscale is missing"},
		{"unknown operation", one(`"layer": 1, "op": "push", "scale": 1, "vector": [1]`), `unknown op "push"`, `unknown op "push"`},
		{"unknown point", one(add + `, "point": "pre"`), `unknown point "pre", want "post"`, `unknown point "pre"`},
		{"a huge token", one(add + `, "when": {"tokens": [4294967297]}`), "token 4294967297 is out of range", "token 4294967297 is out of range"},
		{"a layer past any number", one(`"layer": 99999999999999999999, "op": "add"`), "cannot unmarshal number", "want a whole number"},
		{"unknown phase", one(add + `, "when": {"phases": ["reply"]}`), `unknown phase "reply"`, `unknown phase "reply"`},
		{"unknown schedule", one(add + `, "schedule": {"kind": "step"}`), `unknown schedule "step"`, `unknown schedule "step"`},
		{"schedule of no kind", one(add + `, "schedule": {}`), `schedule is missing`, `schedule is missing`},
		{"unknown gate", one(add + `, "gate": {"layer": 0, "kind": "dot", "threshold": 0, "vector": [1]}`), `unknown gate "dot"`, `unknown gate "dot"`},
		{"gate without", one(add + `, "gate": {"kind": "cosine", "vector": [1]}`), "gate: layer is missing\ngate: threshold is missing", "gate: layer is missing"},
		{"clamp without", one(`"layer": 1, "op": "clamp", "scale": 1, "vector": [1], "min": 0`), "clamp needs min and max", "clamp needs min and max"},
		{"replace without", one(`"layer": 1, "op": "replace", "scale": 1, "vector": [1]`), "replace needs a value", "replace needs a value"},
		{"min of add", one(add + `, "min": 1`), "add has no use for min, only clamp has", "add has no use for min"},
		{"toward of add", one(add + `, "toward": [1], "map": {}`), "only rotate has\nadd has no use for map", "only rotate has\nadd has no use for map"},
		{"ascend without", one(`"layer": 1, "op": "ascend", "scale": 1`), "ascend has no ascent", "ascend has no ascent"},
		{"ascent without", one(`"layer": 1, "op": "ascend", "scale": 1, "ascent": {}`),
			"ascent: threshold is missing\nradius is missing\nsteps is missing\nvalue is missing", "ascent: threshold is missing\nradius is missing"},
		{"value without", one(`"layer": 1, "op": "ascend", "scale": 1, "ascent": {"threshold": 0, "radius": 1, "steps": 1, "value": {"kind": "tree", "layers": []}}`),
			`unknown value "tree"`, `unknown value "tree"`},
		{"a value that does not fit", one(`"layer": 1, "op": "ascend", "scale": 1, "ascent": {"threshold": 0, "radius": 1, "steps": 1,
			"value": {"kind": "linear", "layers": [{"in": 2, "out": 1, "weight": [1], "bias": [0]}]}}`), "1 weights and 1 biases, want 2 and 1", "1 weights and 1 biases"},
		{"vector of ascend", one(`"layer": 1, "op": "ascend", "scale": 1, "vector": [1], "ascent": {}`), "ascend has no use for vector", "ascend has no use for vector"},
		{"ascent of add", one(add + `, "ascent": {}`), "add has no use for ascent, only ascend has", "add has no use for ascent"},
		{"too large", one(`"layer": 1, "op": "add", "scale": 1e300, "vector": [1]`), "cannot unmarshal number 1e300", "scale is +Inf"},
		{"bad plan", one(`"layer": -1, "op": "add", "scale": 1, "vector": [0]`), "layer -1 is negative\nintervention 0 (add at -1.post): vector is empty or all zero", "layer -1 is negative"},
		{"too many", `{"version": 1, "interventions": [` + strings.Repeat("{},", 256) + "{}]}", "257 interventions, the limit is 256", "257 interventions"},
	} {
		for _, f := range formats {
			want := map[string]string{"JSON": c.json, "YAML": c.yaml}[f.name]
			if _, err := f.decode([]byte(c.text)); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "plan file: intervention 0: ", ""), want) {
				t.Errorf("%s, %s: %v does not say %q", c.name, f.name, err, want)
			}
		}
	}
}

// TestYAMLOnly: what only YAML can say.
func TestYAMLOnly(t *testing.T) {
	const two = `
version: 1
interventions:
  - {layer: 1, op: add, scale: 1, vector: &v [1, 2]}
  - {layer: 2, op: project, scale: 1, vector: *v}
`
	p, err := DecodeYAML(strings.NewReader(two))
	if err != nil || p.Len() != 2 || p.At(1).Vector[1] != 2 {
		t.Errorf("a vector by alias: %v, %v", p, err)
	}
	if _, err := DecodeYAML(strings.NewReader(strings.Replace(two, "[1, 2]", "[.nan, .inf]", 1))); err == nil || !strings.Contains(err.Error(), "vector[0] is NaN") {
		t.Errorf("NaN: %v", err)
	}
	bomb := "version: 1\na: &a [0,0,0,0,0,0,0,0,0]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	if _, err := DecodeYAML(strings.NewReader(bomb)); err == nil {
		t.Error("a bomb of aliases was taken")
	}
}

// TestUseless: what an operation ignores cannot be written, because it would
// not be read.
func TestUseless(t *testing.T) {
	p, err := steer.NewPlan(steer.Intervention{Vector: []float32{1}, Scale: 1, Max: 3, Value: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range formats {
		if _, err := f.encode(p); err == nil || !strings.Contains(err.Error(), "intervention 0: add has no use for min, only clamp has") {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.n += len(b)
	return len(b), nil
}

func TestTooLong(t *testing.T) {
	e := &endless{}
	if _, err := DecodeJSON(e); err == nil || !strings.Contains(err.Error(), "longer than 67108864 bytes") || e.n > 2*MaxBytes {
		t.Errorf("after %d bytes: %v", e.n, err)
	}
}

// TestManyValues: a YAML file that would take gigabytes is refused before it is
// parsed; marks inside numbers do not count.
func TestManyValues(t *testing.T) {
	list := "version: 1\ninterventions:\n  - vector: [" + strings.Repeat("0,", MaxValues) + "]"
	for _, text := range []string{list, strings.Repeat("[", MaxValues+1), strings.Repeat("- ", MaxValues+1), strings.Repeat("a: b\n", MaxValues)} {
		if _, err := DecodeYAML(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "more than 2097152 values") {
			t.Errorf("%.20s...: %v", text, err)
		}
	}
	if n := marks([]byte("[-1.5e-05, -2, -3]")); n != 3 {
		t.Errorf("three numbers count as %d", n)
	}
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 8 {
		p, err := steer.NewPlan(random(r), random(r))
		if err != nil {
			f.Fatal(err)
		}
		for _, form := range formats {
			data, _ := form.encode(p)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		for _, form := range formats {
			p, err := form.decode(data)
			if err != nil {
				continue
			}
			again, err := form.encode(p)
			if err != nil {
				t.Fatalf("%s: %v", form.name, err)
			}
			if q, err := form.decode(again); err != nil || q.Fingerprint() != p.Fingerprint() {
				t.Fatalf("%s: %v in\n%s", form.name, err, again)
			}
		}
	})
}

// TestDocs reads the plans in docs/steering.md: the first is the package's own.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/steering.md")
	if err != nil {
		t.Fatal(err)
	}
	var plans []*steer.Plan
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		yaml, _, _ := strings.Cut(block, "```")
		p, err := DecodeYAML(strings.NewReader(yaml))
		if err != nil {
			t.Fatalf("%v in\n%s", err, yaml)
		}
		plans = append(plans, p)
	}
	if len(plans) < 2 || plans[0].Fingerprint() != mustExample(t).Fingerprint() || plans[1].At(0).Op != steer.Ascend {
		t.Errorf("the plans in docs/steering.md are %v", plans)
	}
}
