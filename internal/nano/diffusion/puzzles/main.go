// Command puzzles writes the training puzzles and the probes of nano-diffusion
// as JSON lines, and judges answers to the probes.
//
//	go run ./internal/nano/diffusion/puzzles write -seed 1 -to 400000 -out puzzles.jsonl
//	go run ./internal/nano/diffusion/puzzles probe -n 300 -split test -out probes.jsonl
//	go run ./internal/nano/diffusion/puzzles score -in answers.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/internal/nano/diffusion"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "puzzles:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name a command: write, probe or score")
	}
	switch args[0] {
	case "write":
		return write(args[1:])
	case "probe":
		return probe(args[1:])
	case "score":
		return score(args[1:])
	}
	return fmt.Errorf("unknown command %q: use write, probe or score", args[0])
}

func write(args []string) error {
	fs := flag.NewFlagSet("write", flag.ContinueOnError)
	seed := fs.Uint64("seed", 1, "seed of the puzzles")
	from := fs.Uint64("from", 0, "first puzzle")
	to := fs.Uint64("to", 400000, "one past the last puzzle")
	out := fs.String("out", "puzzles.jsonl", "file to write")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return create(*out, func(w io.Writer) error { return diffusion.Write(w, *seed, *from, *to) })
}

// create writes a file through a buffer and reports the first error of all.
func create(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(fill(w), w.Flush(), f.Close())
}

func probe(args []string) error {
	fs := flag.NewFlagSet("probe", flag.ContinueOnError)
	n := fs.Int("n", 300, "probes of each task")
	seed := fs.Uint64("seed", 7, "seed of the probes")
	split := fs.String("split", string(chat.Test), "train, validation or test")
	out := fs.String("out", "probes.jsonl", "file to write")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return create(*out, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		for _, task := range diffusion.Tasks() {
			probes, err := diffusion.Probes(task, chat.Split(*split), *seed, *n)
			if err != nil {
				return err
			}
			for _, p := range probes {
				if err := enc.Encode(p); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// answered is a probe with the answer that a model gave in some steps.
type answered struct {
	diffusion.Puzzle
	Steps  int    `json:"steps"`
	Answer string `json:"answer"`
}

func score(args []string) error {
	fs := flag.NewFlagSet("score", flag.ContinueOnError)
	in := fs.String("in", "answers.jsonl", "probes with answers")
	if err := fs.Parse(args); err != nil {
		return err
	}
	f, err := os.Open(*in)
	if err != nil {
		return err
	}
	defer f.Close()
	var tally diffusion.Tally
	dec := json.NewDecoder(bufio.NewReader(f))
	for line := 1; ; line++ {
		var a answered
		if err := dec.Decode(&a); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("answer %d: %w", line, err)
		}
		tally.Add(a.Puzzle, a.Steps, a.Answer)
	}
	fmt.Print(tally.String())
	return nil
}
