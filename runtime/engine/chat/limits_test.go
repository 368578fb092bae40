package chat

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/trimtab/trimtab/runtime/engine/chat/internal/jinja"
)

func one(content string) Input {
	return Input{Messages: []Message{{Role: "user", Content: content}}, AddGenerationPrompt: true, Now: clock}
}

// TestHostile: templates that try to hang, to fill the memory or to overflow
// the stack end in an error.
func TestHostile(t *testing.T) {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	cases := map[string]struct {
		src   string
		limit bool // ErrLimit at render, else any error of Parse or Render
	}{
		"recursive macro":  {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", true},
		"mutual macros":    {"{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}", true},
		"recursive loop":   {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", true},
		"nested loops":     {strings.Repeat("{% for x in range(99999) %}", 6) + strings.Repeat("{% endfor %}", 6), true},
		"doubling text":    {"{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}", true},
		"doubling list":    {"{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}", true},
		"shared list":      {"{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s }}", true},
		"shared list json": {"{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s|tojson }}", true},
		"shared list ==":   {"{% set n = namespace(s=[1], t=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ n.s == n.t }}", true},
		"deep list":        {"{% set n = namespace(s=[]) %}{% for i in range(99999) %}{% set n.s = [n.s] %}{% endfor %}{{ n.s }}", true},
		"huge repeat":      {"{{ 'x' * 999999999999 }}", true},
		"huge list repeat": {"{{ [1] * 999999999999 }}", true},
		"huge pad":         {"{{ 'x'.ljust(999999999) }}", true},
		"huge indent":      {"{{ ('\n' * 99999) | indent(1000, blank=true) }}", true},
		"long output":      {"{% for i in range(99999) %}" + strings.Repeat("x", 100) + "{% endfor %}", true},
		"replace blow-up":  {"{% set a = 'x' * 99999 %}{{ a.replace('x', a) }}", true},
		"join blow-up":     {"{% set a = 'x' * 99999 %}{{ a | join(a) }}", true},
		"format width":     {"{{ '%999999999d' % 1 }}", false},
		"format precision": {"{{ '%.999999999f' % 1.5 }}", false},
		"range":            {"{{ range(999999999999) | length }}", false},
		"deep brackets":    {"{{ " + deep("(", ")", 100000) + " }}", false},
		"deep lists":       {"{{ " + deep("[", "]", 100000) + " }}", false},
		"deep not":         {"{{ " + deep("not ", "", 100000) + " }}", false},
		"deep minus":       {"{{ " + deep("-", "", 100000) + " }}", false},
		"deep if":          {deep("{% if 1 %}", "{% endif %}", 50000), false},
		"deep else":        {"{{ " + deep("1 if 0 else ", "", 50000) + " }}", false},
		"deep target":      {"{% for " + deep("(", ")", 100000) + " in [] %}{% endfor %}", false},
		"long chain":       {"{{ 1" + strings.Repeat("+1", 100000) + " }}", true},
		"long attributes":  {"{{ x" + strings.Repeat(".x", 100000) + " }}", true},
		"long filters":     {"{{ 1" + strings.Repeat("|d", 100000) + " }}", true},
		"filter block":     {"{% filter d" + strings.Repeat("|d", 100000) + " %}{% endfilter %}", true},
		"power":            {"{{ 9 ** 9 ** 9 ** 9 }}", false},
		"include":          {"{% include '/etc/hostname' %}", false},
		"import":           {"{% import 'x' as y %}", false},
		"from":             {"{% from 'x' import y %}", false},
		"extends":          {"{% extends 'x' %}", false},
		"list append":      {"{{ messages.append(1) }}", false},
		"dict update":      {"{{ messages[0].update({'role': 'system'}) }}", false},
		"python internals": {"{{ messages.__class__.__mro__ }}", false},
		"random":           {"{{ [1, 2] | random }}", false},
		"not UTF-8":        {"\xff", false},
		"too long":         {strings.Repeat("x", 1<<20+1), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tmpl, err := Parse(c.src, Options{MaxWork: 3_000_000})
			if err == nil {
				var out string
				out, err = tmpl.Render(one("x"))
				if err == nil {
					t.Fatalf("no error, %d bytes of output", len(out))
				}
			}
			var fault *jinja.Fault
			if errors.As(err, &fault) {
				t.Fatal(err)
			}
			if c.limit != errors.Is(err, ErrLimit) {
				t.Fatalf("error %v, want ErrLimit: %v", err, c.limit)
			}
		})
	}
}

// TestErrorLines: faults name the line of the template they are in.
func TestErrorLines(t *testing.T) {
	cases := []struct{ src, want string }{
		{"a\n{{ b", "parse chat template: line 2: tag is never closed: '}}' is missing"},
		{"\n\n{% if x %}", "parse chat template: line 3: block is never closed: 'endif' is missing"},
		{"{% frob %}", "parse chat template: line 1: unknown tag 'frob'"},
		{"\n{{ 1 + }}", "parse chat template: line 2: expected an expression, found '}}'"},
		{"{% endif %}", "parse chat template: line 1: unknown tag 'endif'"},
		{"{% break %}", "parse chat template: line 1: 'break' outside of a loop"},
		{"{% include 'x' %}", "parse chat template: line 1: 'include' is refused: a chat template may not load files"},
		{"\n{{ nope.role }}", "render chat template: line 2: 'nope' is undefined"},
		{"{{ messages[0].nope.x }}", "render chat template: line 1: 'dict object' has no attribute 'nope'"},
		{"{% for m in messages %}\n\n{{ m.content + 1 }}{% endfor %}", "render chat template: line 3: unsupported operand type(s) for +: 'str' and 'int'"},
		{"\n{{ 1|frob }}", "render chat template: line 2: no filter named 'frob'"},
		{"{{ 1 is frob }}", "render chat template: line 1: no test named 'frob'"},
		{"\n\n{{ raise_exception('no\nway') }}", "chat template refuses the conversation: no\nway"},
	}
	for _, c := range cases {
		tmpl, err := Parse(c.src, Options{})
		if err == nil {
			_, err = tmpl.Render(one("x"))
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%q:\n got %v\nwant %s", c.src, err, c.want)
		}
	}
	tmpl, err := Parse("\n\n{{ raise_exception('no') }}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var raised *RaisedError
	if _, err := tmpl.Render(one("x")); !errors.As(err, &raised) || raised.Line != 3 || raised.Message != "no" {
		t.Errorf("raised %+v", err)
	}
}

func TestBadInput(t *testing.T) {
	tmpl, err := Parse(ChatML, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		in   Input
		want string
	}{
		{Input{Messages: []Message{{Role: "user", Content: "a\xffb"}}}, "message 0: content: not valid UTF-8"},
		{Input{Messages: []Message{{Role: "\xc0"}}}, "message 0: role: not valid UTF-8"},
		{Input{BOS: "\xf8"}, "start or end token: not valid UTF-8"},
		{Input{Tools: rawList("{")}, "tool 0"},
		{Input{Tools: rawList("{} {}")}, "tool 0: json has more than one value"},
		{Input{Tools: rawList("\"\xf5\"")}, "tool 0: json is not valid UTF-8"},
		{Input{Tools: rawList(strings.Repeat("[", 5000))}, "tool 0: json is nested more than 200 deep"},
		{Input{Messages: []Message{{ToolCalls: []ToolCall{{Name: "f", Arguments: rawList("{]")[0]}}}}}, `message 0: tool call 0: arguments of "f"`},
	}
	for _, c := range cases {
		if _, err := tmpl.Render(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// TestWithoutClock: strftime_now is undefined, as templates test for.
func TestWithoutClock(t *testing.T) {
	tmpl, err := Parse("{{ strftime_now is defined }}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tmpl.Render(Input{}); err != nil || got != "False" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestConcurrent: one template serves many renders at once (run with -race).
func TestConcurrent(t *testing.T) {
	tmpl := parseFile(t, "qwen3")
	var wg sync.WaitGroup
	for _, c := range conversations(t) {
		want, wantErr := tmpl.Render(c.input())
		for range 4 {
			wg.Go(func() {
				got, err := tmpl.Render(c.input())
				if got != want || (err == nil) != (wantErr == nil) {
					t.Errorf("%s: differs between renders", c.ID)
				}
			})
		}
	}
	wg.Wait()
}
