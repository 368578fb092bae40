package main

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/trimtab/trimtab/internal/gguf"
)

type inspectOptions struct{ meta, tensors, json bool }

// report is what `model inspect` says of a file; its JSON form is documented.
type report struct {
	Version    uint32         `json:"gguf_version"`
	Size       int64          `json:"size"`
	Arch       string         `json:"arch"`
	Name       string         `json:"name,omitempty"`
	Parameters int64          `json:"parameters"`
	Layers     uint64         `json:"layers,omitempty"`
	Width      uint64         `json:"width,omitempty"`
	Heads      uint64         `json:"heads,omitempty"`
	Context    uint64         `json:"context,omitempty"`
	Vocab      int            `json:"vocab,omitempty"`
	Tokenizer  string         `json:"tokenizer,omitempty"`
	Template   bool           `json:"chat_template"`
	Types      []typeReport   `json:"types"`
	Support    []support      `json:"support"`
	Meta       []metaReport   `json:"meta"`
	Tensors    []tensorReport `json:"tensors"`
}

type typeReport struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

type support struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Why  string `json:"why,omitempty"`
}

type metaReport struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

type tensorReport struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Shape []int64 `json:"shape"`
	Bytes int64   `json:"bytes"`
}

// inspect reads the report from an open file. What is missing stays empty.
func inspect(f *gguf.File) report {
	r := report{Version: f.Version, Size: f.Size}
	r.Arch = text(f, "general.architecture")
	r.Name = text(f, "general.name")
	r.Layers = number(f, r.Arch+".block_count")
	r.Width = number(f, r.Arch+".embedding_length")
	r.Heads = number(f, r.Arch+".attention.head_count")
	r.Context = number(f, r.Arch+".context_length")
	r.Tokenizer = text(f, "tokenizer.ggml.model")
	if v, ok := f.Meta("tokenizer.ggml.tokens"); ok {
		r.Vocab = v.Len
	}
	r.Template = text(f, "tokenizer.chat_template") != ""
	for _, k := range f.Keys() {
		r.Meta = append(r.Meta, describe(f, k))
	}
	r.addTensors(f.Tensors)
	r.Support = supported(f, r)
	return r
}

func text(f *gguf.File, key string) string {
	s, _ := f.String(key)
	return strings.ToValidUTF8(s, "\ufffd")
}

func number(f *gguf.File, key string) uint64 {
	n, _ := f.Uint(key)
	return n
}

func (r *report) addTensors(ts []gguf.Tensor) {
	byType := map[string]*typeReport{}
	for i := range ts {
		t := &ts[i]
		name := t.Type.String()
		if byType[name] == nil {
			byType[name] = &typeReport{Type: name}
		}
		byType[name].Tensors++
		byType[name].Bytes += t.Size
		r.Parameters += t.Elements()
		r.Tensors = append(r.Tensors, tensorReport{Name: t.Name, Type: name, Shape: t.Shape, Bytes: t.Size})
	}
	for _, t := range byType {
		r.Types = append(r.Types, *t)
	}
	sort.Slice(r.Types, func(i, j int) bool { return r.Types[i].Bytes > r.Types[j].Bytes })
}

// supported says what Trimtab can do with the file, as far as the file tells.
func supported(f *gguf.File, r report) []support {
	if r.Arch == "controlvector" {
		return []support{{What: "run", Why: "it is a control vector, not a model"}}
	}
	run := support{What: "run", OK: true}
	if err := gguf.CheckModel(f); err != nil {
		run = support{What: "run", Why: err.Error()}
	}
	chat := support{What: "chat template", OK: r.Template}
	if !r.Template {
		chat.Why = "none in the file, chats use the ChatML form"
	}
	return []support{run, chat}
}

// describe shows one metadata entry, long values cut.
func describe(f *gguf.File, key string) metaReport {
	v, _ := f.Meta(key)
	m := metaReport{Key: key, Type: v.Type.String()}
	var err error
	switch v.Type {
	case gguf.Array:
		m.Type = "[]" + v.Elem.String()
		m.Value = fmt.Sprintf("%d entries", v.Len)
	case gguf.String:
		m.Value = shorten(text(f, key), 200)
	case gguf.Bool:
		m.Value, err = format(f.Bool(key))
	case gguf.Float32, gguf.Float64:
		m.Value, err = format(f.Float(key))
	case gguf.Uint64:
		m.Value, err = format(f.Uint(key))
	default:
		m.Value, err = format(f.Int(key))
	}
	if err != nil {
		m.Value = "(" + err.Error() + ")"
	}
	return m
}

func format[T any](v T, err error) (string, error) { return fmt.Sprint(v), err }

func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// printable quotes text that would disturb a terminal.
func printable(s string) string {
	for _, r := range s {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}

func (r report) print(w io.Writer, path string, o inspectOptions) {
	row := func(k, format string, args ...any) {
		fmt.Fprintf(w, "%-14s%s\n", k, printable(fmt.Sprintf(format, args...)))
	}
	row("file", "%s (%s, GGUF version %d)", path, size(r.Size), r.Version)
	row("architecture", "%s", orUnknown(r.Arch))
	if r.Name != "" {
		row("name", "%s", r.Name)
	}
	row("parameters", "%s in %d tensors", count(r.Parameters), len(r.Tensors))
	if r.Layers > 0 {
		row("shape", "%d layers, width %d, %d heads, trained context %d", r.Layers, r.Width, r.Heads, r.Context)
	}
	if r.Vocab > 0 {
		row("vocabulary", "%d tokens (%s)", r.Vocab, orUnknown(r.Tokenizer))
	}
	for _, t := range r.Types {
		row("weights", "%s: %d tensors, %s", t.Type, t.Tensors, size(t.Bytes))
	}
	for _, s := range r.Support {
		row(s.What, "%s", yesNo(s))
	}
	r.printLists(w, o)
}

func (r report) printLists(w io.Writer, o inspectOptions) {
	if o.meta {
		fmt.Fprintln(w, "\nmetadata")
		for _, m := range r.Meta {
			fmt.Fprintf(w, "  %s (%s) = %s\n", printable(m.Key), m.Type, printable(m.Value))
		}
	}
	if o.tensors {
		fmt.Fprintln(w, "\ntensors")
		for _, t := range r.Tensors {
			fmt.Fprintf(w, "  %-40s %-6s %v %s\n", printable(t.Name), t.Type, t.Shape, size(t.Bytes))
		}
	}
	if !o.meta && !o.tensors {
		fmt.Fprintf(w, "\n%d metadata entries: --meta; %d tensors: --tensors\n", len(r.Meta), len(r.Tensors))
	}
}

func yesNo(s support) string {
	answer := "yes"
	if !s.OK {
		answer = "no"
	}
	if s.Why != "" {
		answer += ": " + s.Why
	}
	return answer
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// count writes a number of parameters for people.
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f billion", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f million", float64(n)/1e6)
	}
	return fmt.Sprint(n)
}
