package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

type record struct {
	ID   string   `json:"id"`
	N    int      `json:"n"`
	List []string `json:"list"`
	Any  any      `json:"any"`
}

// read lists what a Reader makes of a text: values and faults, in order.
func read(t *testing.T, r io.Reader, l Limits) (out []string) {
	t.Helper()
	rd := NewReader(r, l)
	for {
		line, err := rd.Next()
		var le *LineError
		switch {
		case err == io.EOF:
			return out
		case errors.As(err, &le):
			out = append(out, err.Error())
			continue
		case err != nil:
			return append(out, "fatal: "+err.Error())
		}
		var v record
		if err := line.Decode(&v); err != nil {
			out = append(out, err.Error())
			continue
		}
		out = append(out, fmt.Sprintf("%d %s %v", line.Number, v.ID, line.Whole))
	}
}

func TestReader(t *testing.T) {
	deep := strings.Repeat("[", 10) + strings.Repeat("]", 10)
	cases := []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"only blanks", "\n \r\n\t\n", nil},
		{"two", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", []string{"1 a true", "2 b true"}},
		{"no last break", "{\"id\":\"a\"}\n{\"id\":\"b\"}", []string{"1 a true", "2 b false"}},
		{"windows breaks and a mark", "\ufeff{\"id\":\"a\"}\r\n\r\n{\"id\":\"b\"}\r\n", []string{"1 a true", "3 b true"}},
		{"a long line between", "{\"id\":\"a\"}\n{\"id\":\"" + strings.Repeat("x", 200) + "\"}\n{\"id\":\"c\"}", []string{"1 a true", "line 2: line is too long: the limit is 100 bytes", "3 c false"}},
		{"just fits", `{"id":"` + strings.Repeat("x", 91) + "\"}\r\n", []string{"1 " + strings.Repeat("x", 91) + " true"}},
		{"one too many", `{"id":"` + strings.Repeat("x", 92) + "\"}\n", []string{"line 1: line is too long: the limit is 100 bytes"}},
		{"bad UTF-8", "{\"id\":\"\xff\"}\n{\"id\":\"b\"}\n", []string{"line 1: not valid UTF-8 at byte 8", "2 b true"}},
		{"half a pair", `{"id":"\ud83d"}`, []string{"line 1: not valid UTF-8: half a surrogate pair at byte 8"}},
		{"other half", `{"id":"x\uDE00"}`, []string{"line 1: not valid UTF-8: half a surrogate pair at byte 9"}},
		{"a pair", `{"id":"\ud83d\uDE00"}`, []string{"1 😀 false"}},
		{"an escaped backslash before u", `{"id":"\\ud83d"}`, []string{`1 \ud83d false`}},
		{"too deep", `{"any":` + deep + `}`, []string{"line 1: nested too deep: the limit is 8"}},
		{"brackets in a string", `{"id":"` + strings.Repeat("[", 20) + `"}`, []string{"1 " + strings.Repeat("[", 20) + " false"}},
		{"torn", `{"id":"a`, []string{"line 1: not a valid record: it breaks off"}},
		{"unknown field", `{"id":"a","temp":1}`, []string{`line 1: not a valid record: unknown field "temp"`}},
		{"wrong type", `{"id":7}`, []string{`line 1: not a valid record: field "id" cannot be a number`}},
		{"an array", `[1]`, []string{"line 1: not a valid record: it is a array, not an object"}},
		{"two values", `{"id":"a"} {}`, []string{"line 1: not a valid record: something follows the record"}},
		{"rubbish", "hello\n", []string{"line 1: not a valid record: invalid character 'h' looking for beginning of value"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
				if d := cmp.Diff(c.want, read(t, r, Limits{Line: 100, Depth: 8})); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func TestReaderPassesInputErrors(t *testing.T) {
	in := io.MultiReader(strings.NewReader("{\"id\":\"a\"}\n{\"id"), iotest.ErrReader(errors.New("cable pulled")))
	want := []string{"1 a true", "fatal: cable pulled"}
	if d := cmp.Diff(want, read(t, in, Limits{})); d != "" {
		t.Error(d)
	}
}

// endless never breaks the line; the reader must not keep it.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(b), e.left)
	e.left -= n
	copy(b[:n], bytes.Repeat([]byte("x"), n))
	return n, nil
}

func TestReaderBoundsMemory(t *testing.T) {
	r := NewReader(&endless{left: 256 << 20}, Limits{Line: 1 << 10})
	_, err := r.Next()
	if !errors.Is(err, ErrTooLong) || cap(r.buf) > 256<<10 {
		t.Errorf("%v, holding %d bytes", err, cap(r.buf))
	}
}

func TestEndOffsets(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range 200 {
		var text bytes.Buffer
		var ends []int64
		for i := range rng.IntN(20) {
			text.WriteString([]string{"", "\n", " \r\n"}[rng.IntN(3)])
			fmt.Fprintf(&text, `{"n":%d}`, i)
			text.WriteString([]string{"\n", "\r\n"}[rng.IntN(2)])
			ends = append(ends, int64(text.Len()))
		}
		r := NewReader(&text, Limits{})
		var got []int64
		for l, err := r.Next(); err == nil; l, err = r.Next() {
			got = append(got, l.End)
		}
		if d := cmp.Diff(ends, got); d != "" {
			t.Fatal(d)
		}
	}
}

// FuzzReader checks that lines are found where bytes.Split finds them, that
// nothing panics, and that what decodes is what encoding/json decodes.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"{\"id\":\"a\"}\n", "\ufeff{}\r\n[[[", "\"\\ud83d\\ude00\"\n\xff", strings.Repeat("x", 300)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 64
		r := NewReader(bytes.NewReader(b), Limits{Line: limit, Depth: 4})
		lines := bytes.Split(b, []byte("\n"))
		for range len(lines) + 1 {
			l, err := r.Next()
			if err == io.EOF {
				return
			}
			if l.Number < 1 || l.Number > len(lines) || l.End > int64(len(b)) {
				t.Fatalf("line %d ending at %d of %d bytes", l.Number, l.End, len(b))
			}
			if err != nil {
				continue
			}
			if len(l.Data) > limit || !utf8.Valid(l.Data) || !bytes.Contains(lines[l.Number-1], l.Data) {
				t.Fatalf("line %d is %q", l.Number, l.Data)
			}
			var got, want any
			if err := l.Decode(&got); err == nil {
				if json.Unmarshal(l.Data, &want) != nil || !cmp.Equal(got, want) {
					t.Fatalf("%q decodes to %v, want %v", l.Data, got, want)
				}
			}
		}
		t.Fatal("reader does not end")
	})
}
