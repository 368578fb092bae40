package batch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func resumeFile(t *testing.T, content string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "out.jsonl"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return f
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestResumeAnywhere cuts a finished output at every byte and resumes: the
// result must be the whole output again.
func TestResumeAnywhere(t *testing.T) {
	in := "{\"id\":\"é\",\"prompt\":\"x😀\"}\nbad\n{\"id\":2,\"prompt\":\"fault\"}\n{\"id\":2,\"prompt\":\"again\"}\n{\"id\":\"z\",\"prompt\":\"last\"}\n"
	gen := func(ctx context.Context, r *Request) (*Answer, error) {
		if r.Prompt == "fault" {
			return nil, &RequestError{Err: errors.New("does not fit")}
		}
		return echo(ctx, r)
	}
	var whole bytes.Buffer
	if _, err := Run(context.Background(), Options{In: strings.NewReader(in), Out: &whole, Generate: gen, Parallel: 2}); err != nil {
		t.Fatal(err)
	}
	for cut := range whole.Len() + 1 {
		f := resumeFile(t, whole.String()[:cut])
		done, err := Resume(f)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if _, err := Run(context.Background(), Options{In: strings.NewReader(in), Out: f, Generate: gen, Parallel: 2, Done: done}); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(whole.String(), content(t, f)); d != "" {
			t.Fatalf("cut at %d: %s", cut, d)
		}
	}
}

func TestResumeFixedLine(t *testing.T) {
	f := resumeFile(t, `{"id":null,"error":{"line":1,"message":"bad"}}`+"\n"+`{"id":2,"error":{"line":2,"message":"does not fit"}}`+"\n")
	done, err := Resume(f)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Run(context.Background(), Options{In: strings.NewReader("{\"id\":1,\"prompt\":\"x\"}\n{\"id\":2,\"prompt\":\"y\"}\n"), Out: f, Generate: echo, Done: done})
	if err != nil || p.Answered != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	if got := short(t, content(t, f)); len(got) != 4 || got[2] != "1 x" || got[3] != "2 y" {
		t.Errorf("got %q", got)
	}
}

// TestResumeBrokenLine: an answered line that was broken since is reported.
func TestResumeBrokenLine(t *testing.T) {
	f := resumeFile(t, `{"id":1,"text":"","tokens":[],"finish_reason":"stop"}`+"\n")
	done, err := Resume(f)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Run(context.Background(), Options{In: strings.NewReader(`{"id":1}`), Out: f, Generate: echo, Done: done})
	if err != nil || p.Failed != 1 || p.Skipped != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestResumeRefuses(t *testing.T) {
	good := `{"id":1,"text":"","tokens":[],"finish_reason":"stop"}` + "\n"
	cases := map[string]string{
		"a text file":        "dear diary\nall is well\n",
		"one line of text":   "dear diary",
		"a binary file":      "GGUF\x03\x00\xff\xfe",
		"a cut text":         good + "dear diary",
		"a whole other line": `{"idea":1}`,
		"a log":              "{\"time\":1}\n",
		"damage in the hole": good + "{\"id\":2,\"te\n" + good,
		"an answer, no id":   `{"id":null,"finish_reason":"stop"}` + "\n",
		"bytes":              "\xff\xfe\n" + good,
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			f := resumeFile(t, text)
			if d, err := Resume(f); err == nil {
				t.Errorf("no error, %+v", d)
			}
			if content(t, f) != text {
				t.Error("the file was changed")
			}
		})
	}
}

// FuzzResume checks that no file makes Resume panic, and that what it accepts
// it only ever shortens to whole lines.
func FuzzResume(f *testing.F) {
	f.Add([]byte(`{"id":1,"text":"","tokens":[],"finish_reason":"stop"}` + "\n" + `{"id":2`))
	f.Add([]byte(`{"id":null,"error":{"line":1,"message":"x"}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &memFile{b: b}
		if _, err := Resume(m); err != nil {
			return
		}
		if !bytes.HasPrefix(b, m.b) || m.at != int64(len(m.b)) || (len(m.b) > 0 && m.b[len(m.b)-1] != '\n') {
			t.Fatalf("%q became %q, at %d", b, m.b, m.at)
		}
	})
}

type memFile struct {
	b  []byte
	at int64
}

func (m *memFile) Read(p []byte) (int, error) {
	if m.at >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[m.at:])
	m.at += int64(n)
	return n, nil
}

func (m *memFile) Write(p []byte) (int, error) { return 0, errors.New("read only") }

func (m *memFile) Seek(off int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		off += int64(len(m.b))
	}
	m.at = off
	return off, nil
}

func (m *memFile) Truncate(n int64) error { m.b = m.b[:n]; return nil }
