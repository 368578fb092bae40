package main

import (
	"fmt"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/checker"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/safety"
	"github.com/trimtab/trimtab/decode"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
)

// textFlags are the flags of `monitor fit`, `eval` and `calibrate` about the
// texts that they work on and what is unsafe about these.
type textFlags struct {
	prompts, label string
	timeout        time.Duration
	samples, limit int
	maxTokens      int
	params         decode.Params
	seed           uint64
	asJSON         bool
	keep           string // file for the texts with their labels

	labeller safety.Labeller // nil when labels are given
	given    bool
	command  *cobra.Command
}

// builtIn says which of the built-in prompts a command takes when no file is
// named, and how many: no combination of words is in two of the splits.
type builtIn struct {
	split corpus.Split
	count int
}

func newTextFlags(c *cobra.Command) *textFlags {
	t := &textFlags{command: c, params: decode.DefaultParams()}
	f, p := c.Flags(), &t.params
	f.StringVar(&t.prompts, "prompts", "", "`FILE` of prompts (default for nano: built-in ones, some of them hazardous)")
	f.StringVar(&t.label, "label", "", "what is unsafe: "+labelKinds+" (required)")
	f.DurationVar(&t.timeout, "label-timeout", checker.DefaultTimeout, "longest run of a labelling command")
	f.IntVar(&t.samples, "samples", 1, "texts for each prompt")
	f.IntVar(&t.limit, "limit", 0, "use the first `N` prompts only (default: all)")
	f.IntVar(&t.maxTokens, "max-tokens", 128, "longest text in tokens")
	f.Float32Var(&p.Temperature, "temp", p.Temperature, "temperature; sample as you will when the monitor is used")
	f.IntVar(&p.TopK, "top-k", p.TopK, "keep the `N` likeliest tokens, 0 for all")
	f.Float32Var(&p.TopP, "top-p", p.TopP, "keep the likeliest tokens that make up this probability, 1 for all")
	f.Float32Var(&p.MinP, "min-p", p.MinP, "keep tokens at least this probable, relative to the best; 0 for all")
	f.StringVar(&t.keep, "write-texts", "", "also write the texts with their labels to `FILE`, to be mended by hand for --label labels:FILE")
	f.Uint64Var(&t.seed, "seed", 0, "seed of every random choice")
	f.BoolVar(&t.asJSON, "json", false, "print one JSON object")
	return t
}

// check reports wrong values before anything is loaded.
func (t *textFlags) check(model string) (err error) {
	c := t.command
	if t.label == "" {
		return usagef(c, "--label is missing: say what is unsafe with %s", labelKinds)
	}
	if t.labeller, t.given, err = labelOf(t.label, t.timeout); err != nil {
		if exitCode(err) == codeBadInput {
			return err
		}
		return usagef(c, "--label: %w", err)
	}
	switch {
	case t.given && t.prompts != "":
		return usagef(c, "--prompts and --label labels:FILE exclude each other: the file has the prompts")
	case t.given && t.samples != 1:
		return usagef(c, "--samples is for texts that are generated, not for --label labels:FILE")
	case !t.given && t.prompts == "" && model != nanoModel:
		return usagef(c, "--prompts is missing: name a file of prompts")
	case !t.given && t.prompts == "" && t.label != "nano":
		return usagef(c, "the built-in prompts want --label nano; name a file with --prompts for %s", t.label)
	case t.keep != "" && t.given:
		return usagef(c, "--write-texts: the texts are in %s already", t.label[len("labels:"):])
	case t.samples < 1 || t.samples > 1000:
		return usagef(c, "--samples is %d, must be between 1 and 1000", t.samples)
	case t.limit < 0:
		return usagef(c, "--limit is %d, must be 0 or more", t.limit)
	case t.maxTokens < 1:
		return usagef(c, "--max-tokens is %d, must be at least 1", t.maxTokens)
	case t.timeout <= 0:
		return usagef(c, "--label-timeout is %s, must be above 0", t.timeout)
	}
	if err := t.params.Validate(); err != nil {
		return usagef(c, "%w", err)
	}
	return nil
}

// specimens are the prompts, with each of them as often as it is to be answered.
func (t *textFlags) specimens(b builtIn) ([]specimen, error) {
	if t.given {
		list, err := readSpecimens(t.label[len("labels:"):])
		return t.first(list), err
	}
	questions, err := t.questions(b)
	if err != nil {
		return nil, err
	}
	var list []specimen
	for _, q := range questions {
		list = append(list, specimen{question: q})
	}
	list = t.first(list)
	if len(list)*t.samples > checker.MaxItems {
		return nil, badInput("%d prompts with %d samples each are over the limit of %d texts", len(list), t.samples, checker.MaxItems)
	}
	var out []specimen
	for _, s := range list {
		id := s.question.ID
		for k := range t.samples {
			if k > 0 {
				s.question.ID = fmt.Sprintf("%s#%d", id, k+1)
			}
			out = append(out, s)
		}
	}
	return out, nil
}

func (t *textFlags) first(list []specimen) []specimen {
	if t.limit > 0 && t.limit < len(list) {
		return list[:t.limit]
	}
	return list
}

func (t *textFlags) questions(b builtIn) ([]checker.Question, error) {
	if t.prompts == "" {
		return builtInQuestions(b, t.seed, t.limit)
	}
	f, err := os.Open(t.prompts)
	if err != nil {
		return nil, badInput("%w", err)
	}
	defer f.Close()
	list, err := checker.ReadQuestions(f)
	if err != nil {
		return nil, badInput("%s: %w", t.prompts, err)
	}
	return list, nil
}

// builtInQuestions are safety prompts of nano-chat, 6 of 10 about hazardous
// things.
func builtInQuestions(b builtIn, seed uint64, limit int) ([]checker.Question, error) {
	set, err := corpus.SetNamed("safety")
	if err != nil {
		return nil, err
	}
	var out []checker.Question
	for i, r := range set.Records(b.split, seed, max(b.count, limit)) {
		q := checker.Question{ID: fmt.Sprintf("%s-%d", b.split, i+1), Record: r}
		for _, m := range r.Messages {
			q.Turns = append(q.Turns, checker.Message{Role: string(m.Role), Content: m.Content})
		}
		out = append(out, q)
	}
	return out, nil
}

// groupOf names a prompt by its words: texts that answer equal prompts are dealt
// to one part.
func groupOf(q *checker.Question) string {
	h := xxhash.New()
	for _, m := range q.Turns {
		fmt.Fprintf(h, "%d %s %d %s ", len(m.Role), m.Role, len(m.Content), m.Content)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
