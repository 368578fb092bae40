package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/internal/nano/diffusion"
)

const dataLong = `The data sets that go with the built-in models: preference pairs, safety prompts
with labelled answers, neutral prompts, sums with objections, puzzles. They are
generated, the same for the same seed on every machine, and judged by the code
that made them. No combination occurs in two splits.`

func newData(a *app) *cobra.Command {
	return group(a, "data", "List, show and export the built-in data sets", dataLong,
		newDataList(a), newDataShow(a), newDataExport(a))
}

// dataSet is one set of either model, as the commands see it.
type dataSet struct {
	name, doc, use string
	size           int
	// records writes n records of a split, one JSON value each.
	records func(split chat.Split, seed uint64, n int) ([]any, error)
}

func dataSets() []dataSet {
	var out []dataSet
	for _, s := range chat.Sets() {
		out = append(out, dataSet{s.Name, s.Doc, string(s.Use), s.Size, func(split chat.Split, seed uint64, n int) ([]any, error) {
			return anys(s.Records(split, seed, n)), nil
		}})
	}
	for _, t := range diffusion.Tasks() {
		out = append(out, dataSet{"puzzle-" + string(t), "puzzles for nano-diffusion, a blank is \"_\"", "puzzles", 400, func(split chat.Split, seed uint64, n int) ([]any, error) {
			puzzles, err := diffusion.Probes(t, split, seed, n)
			return anys(puzzles), err
		}})
	}
	return out
}

func anys[T any](in []T) []any {
	out := make([]any, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

func findData(name string) (dataSet, error) {
	for _, s := range dataSets() {
		if s.name == name {
			return s, nil
		}
	}
	return dataSet{}, badInput("no data set %q; \"trimtab data list\" names them", name)
}

func newDataList(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the data sets", Long: dataLong, Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "name\tuse\trecords\twhat")
			for _, s := range dataSets() {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", s.name, s.use, s.size, s.doc)
			}
			return w.Flush()
		},
	}
}

// dataFlags choose records of a set.
type dataFlags struct {
	split string
	seed  uint64
	n     int
}

// maxRecords bounds what one command makes, in records of a split.
const maxRecords = 1_000_000

func (f *dataFlags) add(c *cobra.Command, n int, all string) {
	c.Flags().StringVar(&f.split, "split", all, "train, validation or test")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the records")
	c.Flags().IntVar(&f.n, "n", n, "records of each split")
}

func (f *dataFlags) splits(c *cobra.Command) ([]chat.Split, error) {
	if f.n < 0 || f.n > maxRecords {
		return nil, usagef(c, "--n is %d, must be between 0 and %d", f.n, maxRecords)
	}
	all := []chat.Split{chat.Train, chat.Validation, chat.Test}
	if f.split == "" {
		return all, nil
	}
	for _, s := range all {
		if string(s) == f.split {
			return []chat.Split{s}, nil
		}
	}
	return nil, usagef(c, "--split is %q, must be train, validation or test", f.split)
}

func newDataShow(a *app) *cobra.Command {
	var f dataFlags
	c := &cobra.Command{
		Use: "show NAME", Short: "Print a few records of a data set", Args: oneArg("the name of a data set"),
		Example: "  trimtab data show arithmetic-careful\n  trimtab data show puzzle-latin4 --split train --n 3",
	}
	f.add(c, 5, "test")
	c.RunE = func(c *cobra.Command, args []string) error {
		splits, err := f.splits(c)
		if err != nil {
			return err
		}
		s, err := findData(args[0])
		if err != nil {
			return err
		}
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return f.write(s, splits, enc)
	}
	return c
}

func (f *dataFlags) write(s dataSet, splits []chat.Split, enc *json.Encoder) error {
	for _, split := range splits {
		records, err := s.records(split, f.seed, f.n)
		if err != nil {
			return err
		}
		for _, r := range records {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
	}
	return nil
}

const dataExportLong = `Writes data sets as JSON lines, one file each: half of the set's records for
training, a quarter each for validation and test, or --n of each split asked
for. "all" stands for every set. Existing files are replaced.`

func newDataExport(a *app) *cobra.Command {
	var f dataFlags
	var dir string
	c := &cobra.Command{
		Use: "export NAME...|all", Short: "Write data sets as JSON lines", Long: dataExportLong,
		Example: "  trimtab data export all --dir data\n  trimtab data export style-formal --split train --n 100 --dir data",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef(c, "%s needs the names of data sets, or all", c.CommandPath())
			}
			return nil
		},
	}
	f.add(c, 0, "")
	c.Flags().StringVar(&dir, "dir", ".", "`FOLDER` to write into")
	c.RunE = func(c *cobra.Command, args []string) error {
		splits, err := f.splits(c)
		if err != nil {
			return err
		}
		sets, err := chosenSets(args)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, s := range sets {
			path := filepath.Join(dir, s.name+".jsonl")
			if err := writeWhole(path, func(w io.Writer) error { return f.export(w, s, splits) }); err != nil {
				return err
			}
			fmt.Fprintln(a.out, path)
		}
		return nil
	}
	return c
}

func chosenSets(names []string) (out []dataSet, err error) {
	if len(names) == 1 && names[0] == "all" {
		return dataSets(), nil
	}
	for _, name := range names {
		s, err := findData(name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// export writes f.n records of each split, or the set's default shares.
func (f *dataFlags) export(w io.Writer, s dataSet, splits []chat.Split) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, split := range splits {
		g := *f
		if g.n == 0 {
			g.n = s.size / 4
			if split == chat.Train {
				g.n = s.size / 2
			}
		}
		if err := g.write(s, []chat.Split{split}, enc); err != nil {
			return err
		}
	}
	return nil
}

// writeWhole writes a file beside its place and renames it when it is complete.
func writeWhole(path string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	err = errors.Join(fill(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
