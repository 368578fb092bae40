package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

const formats = "../../docs/formats.md"

// TestFormatsNamesEveryFlag keeps docs/formats.md complete.
func TestFormatsNamesEveryFlag(t *testing.T) {
	text := readFile(t, formats)
	for _, c := range newRoot(newTest(t, "", enginetest.FakeConfig{}).app).Commands() {
		checkFlags(t, c, text)
	}
}

func checkFlags(t *testing.T, c *cobra.Command, text string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if c.GroupID == "use" && f.Name != "help" && !strings.Contains(text, "`--"+f.Name+"`") {
			t.Errorf("docs/formats.md does not mention --%s of %s", f.Name, c.Name())
		}
	})
}

// TestFormatsExamples runs the documented input.
func TestFormatsExamples(t *testing.T) {
	_, rest, _ := strings.Cut(readFile(t, formats), "## Batch input")
	_, rest, _ = strings.Cut(rest, "```\n")
	in, _, _ := strings.Cut(rest, "```")
	p, err := batch.Run(context.Background(), batch.Options{In: strings.NewReader(in), Out: io.Discard,
		Generate: func(context.Context, *batch.Request) (*batch.Answer, error) { return &batch.Answer{}, nil }})
	if err != nil || p.Answered != 2 || p.Failed != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}
