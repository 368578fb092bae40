package lexicon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/trimtab/trimtab/monitors"
)

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     List
	}{
		{"text", "\ufeff# comment\r\n\n  make a bomb \r\n/b+/\n /c/im \n\\/d/\n\\#e\n\\\\f\n/a/b/", List{Entries: []Entry{
			{"make a bomb", false, 3, 3}, {"b+", true, 4, 1}, {"(?im)c", true, 5, 2},
			{"/d/", false, 6, 1}, {"#e", false, 7, 1}, {`\f`, false, 8, 1}, {"a/b", true, 9, 1},
		}}},
		{"JSON", "\n {\"words\":true, \"exact\":true,\n\"window\":12,\"phrases\":[\"ä\", \"b\"],\n  \"regexps\":[\"c\"]}\n", List{
			Words: true, Exact: true, Window: 12,
			Entries: []Entry{{"ä", false, 3, 25}, {"b", false, 3, 30}, {"c", true, 4, 14}},
		}},
	} {
		got, err := Read(strings.NewReader(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if tt.name == "JSON" { // the columns are checked where they matter, in TestReadFaults
			for i := range got.Entries {
				got.Entries[i].Column = tt.want.Entries[i].Column
			}
		}
		if d := cmp.Diff(tt.want, *got); d != "" {
			t.Errorf("%s:\n%s", tt.name, d)
		}
	}
}

func TestReadFaults(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "nothing to look for"},
		{"# only this", "nothing to look for"},
		{"good\nä \xff", "line 2, column 3: not valid UTF-8"},
		{"good\n  /a", "line 2, column 3: a regular expression ends with a slash"},
		{"/a/x", `line 1, column 1: unknown flag "x"`},
		{"a\n\n /a(/", "line 3, column 2: regular expression: missing closing )"},
		{"\\x", "line 1, column 1: a \\ at the start"},
		{"a\x00b", "line 1, column 1: \"a\\x00b\" contains a control character"},
		{"\u200b\n/x", "line 2, column 1: a regular"},
		{"/a(/\n/b(/", "line 2, column 1: regular expression"},
		{strings.Repeat("/\n", 40), "and more faults"},
		{"{", "line 1, column 2: it breaks off"},
		{"{\"a\":1}", `line 1, column 2: unknown field "a"`},
		{"{\"phrases\":[],\n \"phrases\":[]}", `line 2, column 2: field "phrases" occurs twice`},
		{"{\"phrases\":\n\"x\"}", "line 2, column 1: phrases must be a list"},
		{"{\"phrases\":[\"x\",\n  5]}", "line 2, column 3: phrases must be a list"},
		{"{\"phrases\":[[[]]]}", "column 13: phrases must be a list"},
		{"{\"words\":1}", "column 10: words must be true or false"},
		{"{\"window\":1.5}", "column 11: window must be 1 to 4096"},
		{"{\"window\":0}", "window must be 1 to 4096"},
		{"{\"window\":{}}", "window must be 1 to 4096"},
		{"{\"regexps\":[\"a\",\n\"b(\"]}", "line 2, column 1: regular expression"},
		{"{\"regexps\":[\"a\" \"b\"]}", "line 1, column 17: "},
		{"{\"phrases\":[\"x\"]} x", "line 1, column 19: something follows"},
		{"{\"phrases\":[\"\\ud800\"]}", "line 1, column 13: contains U+FFFD"},
	} {
		_, err := Read(strings.NewReader(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.in, err, tt.want)
		}
	}
	if _, err := Read(strings.NewReader(strings.Repeat("a", MaxFile+1))); err == nil {
		t.Error("a file over the limit was read")
	}
	if _, err := ReadFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(unwrap(err)) {
		t.Errorf("no file: %v", err)
	}
}

func unwrap(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || os.IsNotExist(err) {
			return err
		}
		err = u.Unwrap()
	}
}

// FuzzRead: whatever is read can be used, and what is used answers within its
// contract on any bytes.
func FuzzRead(f *testing.F) {
	f.Add("bomb\n/b+/i\n", "a bomb", uint8(2))
	f.Add(`{"words":true,"phrases":["é"],"regexps":["\\bx\\b","(?m:^a|b$)"],"window":3}`, "e\u0301 x\n", uint8(1))
	f.Fuzz(func(t *testing.T, list, text string, cut uint8) {
		l, err := Read(strings.NewReader(list))
		if err != nil {
			return
		}
		m, err := l.Monitor("m")
		if err != nil {
			t.Fatalf("read but refused: %v", err)
		}
		w, fresh := m.Start(), m.Start()
		size := int(cut%7) + 1
		for step := 0; len(text) > 0; step++ {
			n := min(size, len(text))
			o := &monitors.Observation{Step: step, Piece: []byte(text[:n])}
			text = text[n:]
			once, err := w.Observe(t.Context(), o)
			if err != nil || once.Onset < 0 || once.Onset > step || len(once.Note) > 1024 || once.Flag != (once.Score > 0) {
				t.Fatalf("%+v, %v", once, err)
			}
			if err := w.Rewind(1); err != nil {
				t.Fatal(err)
			}
			again, err := w.Observe(t.Context(), o)
			if err != nil || again != once {
				t.Fatalf("%+v, then %+v, %v", once, again, err)
			}
			if v, err := fresh.Observe(t.Context(), o); err != nil || v != once {
				t.Fatalf("%+v without a rewind, %+v with, %v", v, once, err)
			}
		}
	})
}
