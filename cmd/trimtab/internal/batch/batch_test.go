package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/internal/jsonl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers with the prompt, one token a byte.
func echo(_ context.Context, r *Request) (*Answer, error) {
	text := r.Prompt
	for _, m := range r.Messages {
		text += m.Role + ":" + m.Content + ";"
	}
	a := &Answer{Text: text, FinishReason: "stop", Usage: Usage{PromptTokens: len(text), CompletionTokens: len(text)}}
	for _, b := range []byte(text) {
		a.Tokens = append(a.Tokens, int32(b))
	}
	return a, nil
}

// run answers text and returns the output lines, shortened to id and text or
// fault.
func run(t *testing.T, in string, change func(*Options)) (lines []string, p Progress, err error) {
	t.Helper()
	var out bytes.Buffer
	o := Options{In: strings.NewReader(in), Out: &out, Generate: echo, Parallel: 3, Limits: jsonl.Limits{Line: 200}}
	if change != nil {
		change(&o)
	}
	p, err = Run(context.Background(), o)
	return short(t, out.String()), p, err
}

func short(t *testing.T, out string) (lines []string) {
	t.Helper()
	if out != "" && !strings.HasSuffix(out, "\n") {
		t.Errorf("torn output %q", out)
	}
	rd := jsonl.NewReader(strings.NewReader(out), jsonl.Limits{})
	for {
		l, err := rd.Next()
		if err == io.EOF {
			return lines
		}
		var r struct {
			ID           ID       `json:"id"`
			Text         string   `json:"text"`
			Tokens       []int32  `json:"tokens"`
			FinishReason string   `json:"finish_reason"`
			Usage        *Usage   `json:"usage"`
			Timings      *Timings `json:"timings"`
			Error        *Fault   `json:"error"`
		}
		if err == nil {
			err = l.Decode(&r)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Error != nil {
			lines = append(lines, fmt.Sprintf("%s line %d: %s", r.ID, r.Error.Line, r.Error.Message))
		} else {
			lines = append(lines, fmt.Sprintf("%s %s", r.ID, r.Text))
		}
	}
}

func TestRunLines(t *testing.T) {
	cases := []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"prompt", `{"id":"a","prompt":"x"}`, []string{`"a" x`}},
		{"number id", `{"id":-7,"prompt":"x"}`, []string{`-7 x`}},
		{"chat", `{"id":"a","messages":[{"role":"system","content":""},{"role":"user","content":"hi"}]}`, []string{`"a" system:;user:hi;`}},
		{"markup stays readable", `{"id":"a","prompt":"<b>&é😀\u0000"}`, []string{"\"a\" <b>&é😀\x00"}},
		{"no id", `{"prompt":"x"}`, []string{`null line 1: "id" is missing`}},
		{"null id", `{"id":null,"prompt":"x"}`, []string{`null line 1: "id" is missing`}},
		{"fraction id", `{"id":1.5,"prompt":"x"}`, []string{`null line 1: "id" must be a text or an integer`}},
		{"object id", `{"id":{},"prompt":"x"}`, []string{`null line 1: "id" must be a text or an integer`}},
		{"both", `{"id":1,"prompt":"x","messages":[]}`, []string{`1 line 1: a request has either "prompt" or "messages"`}},
		{"neither", `{"id":1}`, []string{`1 line 1: a request has either "prompt" or "messages"`}},
		{"empty prompt", `{"id":1,"prompt":""}`, []string{`1 line 1: the prompt is empty`}},
		{"no messages", `{"id":1,"messages":[]}`, []string{`1 line 1: 0 messages, must be between 1 and 10000`}},
		{"half a message", `{"id":1,"messages":[{"role":"user"}]}`, []string{`1 line 1: message 1 needs "role" and "content", both texts`}},
		{"own sampling", `{"id":1,"prompt":"x","temperature":0}`, []string{`null line 1: not a valid record: unknown field "temperature"`}},
		{"prompt is a number", `{"id":1,"prompt":7}`, []string{`null line 1: not a valid record: field "prompt" cannot be a number`}},
		{"rubbish between", "{\"id\":1,\"prompt\":\"x\"}\nrubbish\n\xff\n{\"id\":2,\"prompt\":\"y\"}\n", []string{
			`1 x`, `null line 2: not a valid record: invalid character 'r' looking for beginning of value`, `null line 3: not valid UTF-8 at byte 1`, `2 y`}},
		{"too long", `{"id":1,"prompt":"` + strings.Repeat("x", 200) + `"}`, []string{`null line 1: line is too long: the limit is 200 bytes`}},
		{"same id twice", "{\"id\":\"a\",\"prompt\":\"x\"}\n{\"id\":\"\\u0061\",\"prompt\":\"y\"}\n", []string{`"a" x`, `null line 2: id "\u0061" was used on an earlier line`}},
		{"text and number differ", "{\"id\":\"1\",\"prompt\":\"x\"}\n{\"id\":1,\"prompt\":\"y\"}\n", []string{`"1" x`, `1 y`}},
		{"long id", `{"id":"` + strings.Repeat("i", 150) + `","prompt":"x"}`, []string{`"` + strings.Repeat("i", 150) + `" x`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, p, err := run(t, c.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if p.Answered+p.Failed != len(c.want) {
				t.Errorf("counts %+v", p)
			}
		})
	}
}

func TestRecordForm(t *testing.T) {
	var out bytes.Buffer
	gen := func(context.Context, *Request) (*Answer, error) {
		return &Answer{Text: "a\n<", FinishReason: "length", Timings: Timings{Total: 1.5}}, nil
	}
	if _, err := Run(context.Background(), Options{In: strings.NewReader(`{"id":"q","prompt":"x"}`), Out: &out, Generate: gen}); err != nil {
		t.Fatal(err)
	}
	want := `{"id":"q","text":"a\n<","tokens":[],"finish_reason":"length","usage":{"prompt_tokens":0,"completion_tokens":0},"timings":{"queued_ms":0,"first_token_ms":0,"total_ms":1.5}}` + "\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func requests(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":%d,\"prompt\":\"p%d\"}\n", i, i)
	}
	return b.String()
}

func want(from, to int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprintf("%d p%d", i, i))
	}
	return lines
}

// TestRunKeepsOrder answers in random order.
func TestRunKeepsOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		var mu sync.Mutex
		parallel := 1 + rng.IntN(16)
		ahead := rng.IntN(30)
		got, p, err := run(t, requests(100), func(o *Options) {
			o.Parallel, o.Ahead = parallel, ahead
			o.Generate = func(ctx context.Context, r *Request) (*Answer, error) {
				mu.Lock()
				n := rng.IntN(5)
				mu.Unlock()
				for range n {
					runtime.Gosched()
				}
				return echo(ctx, r)
			}
		})
		if err != nil || p.Answered != 100 {
			t.Fatalf("parallel %d, ahead %d: %+v, %v", parallel, ahead, p, err)
		}
		if d := cmp.Diff(want(0, 100), got); d != "" {
			t.Fatal(d)
		}
	}
}

// counting counts the lines that were read.
type counting struct {
	r io.Reader
	n atomic.Int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b[:1]) // no read-ahead of its own
	if n > 0 && b[0] == '\n' {
		c.n.Add(1)
	}
	return n, err
}

// TestRunLooksAheadBounded holds back the first answer: the reader must stop.
func TestRunLooksAheadBounded(t *testing.T) {
	const parallel, ahead = 4, 10
	in := &counting{r: strings.NewReader(requests(1000))}
	release := make(chan struct{})
	var busy, most atomic.Int64
	var out bytes.Buffer
	done := make(chan error)
	go func() {
		_, err := Run(context.Background(), Options{In: in, Out: &out, Parallel: parallel, Ahead: ahead,
			Generate: func(ctx context.Context, r *Request) (*Answer, error) {
				for n := busy.Add(1); n > most.Load(); {
					most.Store(n)
				}
				defer busy.Add(-1)
				if r.Prompt == "p0" {
					<-release
				}
				return echo(ctx, r)
			}})
		done <- err
	}()
	last := int64(-1)
	for in.n.Load() != last { // until the reader stands still
		last = in.n.Load()
		time.Sleep(20 * time.Millisecond)
	}
	// On the belt: ahead slots, one that the writer holds, one that waits to get on.
	if last > ahead+2 {
		t.Errorf("read %d lines ahead, want at most %d", last, ahead+2)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if most.Load() > parallel {
		t.Errorf("%d requests at once, want at most %d", most.Load(), parallel)
	}
	if d := cmp.Diff(want(0, 1000), short(t, out.String())); d != "" {
		t.Error(d)
	}
}

func TestRunEnds(t *testing.T) {
	boom := errors.New("boom")
	at := func(prompt string, err error) func(*Options) {
		return func(o *Options) {
			o.Generate = func(ctx context.Context, r *Request) (*Answer, error) {
				if r.Prompt == prompt {
					return nil, err
				}
				return echo(ctx, r)
			}
		}
	}
	cases := []struct {
		name   string
		in     string
		change func(*Options)
		want   []string // a prefix of the output is enough when the error is fatal
		says   string
	}{
		{"request fault", requests(3), at("p1", &RequestError{Err: boom}), []string{"0 p0", "1 line 2: boom", "2 p2"}, ""},
		{"request fault, abort", requests(9), func(o *Options) { at("p5", &RequestError{Err: boom})(o); o.Abort = true }, want(0, 5), "line 6: boom"},
		{"bad line, abort", requests(2) + "x\n" + requests(1), func(o *Options) { o.Abort = true }, want(0, 2), "line 3: not a valid record"},
		{"engine fault", requests(9), func(o *Options) { at("p0", boom)(o) }, nil, "line 1: boom"},
		{"input fails", "", func(o *Options) {
			o.In = io.MultiReader(strings.NewReader(requests(2)), iotest.ErrReader(boom))
		}, want(0, 2), "read the input after line 2: boom"},
		{"output fails", requests(9), func(o *Options) { o.Out = failing{} }, nil, "write the output: pipe is closed"},
		{"too parallel", "", func(o *Options) { o.Parallel = MaxParallel + 1 }, nil, "parallel is 257"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := run(t, c.in, c.change)
			if (err == nil) != (c.says == "") || (err != nil && !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("pipe is closed") }

// TestRunCancelled ends a run in the middle, also while the input blocks.
func TestRunCancelled(t *testing.T) {
	stop := errors.New("stop now")
	r, w := io.Pipe()
	defer w.Close()
	go io.WriteString(w, requests(3))
	ctx, cancel := context.WithCancelCause(context.Background())
	var out bytes.Buffer
	started := make(chan struct{})
	o := Options{In: r, Out: &out, Parallel: 2, Progress: func(p Progress) {
		if p.Answered == 2 {
			<-started
			cancel(stop)
		}
	}, Generate: func(ctx context.Context, r *Request) (*Answer, error) {
		if r.Prompt == "p2" {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return echo(ctx, r)
	}}
	p, err := Run(ctx, o)
	if err != stop || p.Answered != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	if d := cmp.Diff(want(0, 2), short(t, out.String())); d != "" {
		t.Error(d)
	}
}
