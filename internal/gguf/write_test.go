package gguf

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// every returns a writer with one metadata entry of each type and a few tensors.
func every() *Writer {
	w := NewWriter()
	w.Set("general.architecture", "test")
	w.Set("u8", uint8(200))
	w.Set("i8", int8(-100))
	w.Set("u16", uint16(60000))
	w.Set("i16", int16(-30000))
	w.Set("u32", uint32(4e9))
	w.Set("i32", int32(-2e9))
	w.Set("u64", uint64(1<<63+1))
	w.Set("i64", int64(-1<<62))
	w.Set("f32", float32(0.5))
	w.Set("f64", 0.1)
	w.Set("yes", true)
	w.Set("text", "grüße\n")
	w.Set("empty", "")
	w.Set("texts", []string{"a", "", "ccc"})
	w.Set("i32s", []int32{-1, 0, 7})
	w.Set("f32s", []float32{1, -2.5})
	w.Set("u8s", []uint8{1, 2})
	w.Set("bools", []bool{true, false, true})
	w.Set("none", []string{})
	w.AddF32("a", F32, []int64{3, 2}, []float32{1, 2, 3, 4, 5, 6})
	w.AddF32("b", F16, []int64{2}, []float32{0.5, -2})
	w.AddF32("q", Q8_0, []int64{32, 1, 1, 2}, ramp(64))
	w.AddBytes("raw", I32, []int64{1}, []byte{1, 2, 3, 4})
	return w
}

func ramp(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%32) * 127 / 31
	}
	return x
}

func bytesOf(t testing.TB, w *Writer) []byte {
	t.Helper()
	var buf bytes.Buffer
	n, err := w.WriteTo(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(buf.Len()) {
		t.Fatalf("WriteTo says %d bytes, wrote %d", n, buf.Len())
	}
	return buf.Bytes()
}

func parse(b []byte) (*File, error) { return Read(bytes.NewReader(b), int64(len(b))) }

func TestRoundTrip(t *testing.T) {
	data := bytesOf(t, every())
	f, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	get := func(v any, err error) any {
		if err != nil {
			t.Error(err)
		}
		return v
	}
	str := func(k string) any { v, err := f.String(k); return get(v, err) }
	strs := func(k string) any { v, err := f.Strings(k); return get(v, err) }
	num := func(k string) any { v, err := f.Int(k); return get(v, err) }
	unum := func(k string) any { v, err := f.Uint(k); return get(v, err) }
	flt := func(k string) any { v, err := f.Float(k); return get(v, err) }
	yes := func(k string) any { v, err := f.Bool(k); return get(v, err) }
	ints := func(k string) any { v, err := f.Ints(k); return get(v, err) }
	flts := func(k string) any { v, err := f.Floats(k); return get(v, err) }
	yess := func(k string) any { v, err := f.Bools(k); return get(v, err) }
	for _, c := range []struct {
		key       string
		got, want any
	}{
		{"u8", unum("u8"), uint64(200)}, {"i8", num("i8"), int64(-100)},
		{"u16", num("u16"), int64(60000)}, {"i16", num("i16"), int64(-30000)},
		{"u32", unum("u32"), uint64(4e9)}, {"i32", num("i32"), int64(-2e9)},
		{"u64", unum("u64"), uint64(1<<63 + 1)}, {"i64", num("i64"), int64(-1 << 62)},
		{"f32", flt("f32"), 0.5}, {"f64", flt("f64"), 0.1}, {"yes", yes("yes"), true},
		{"text", str("text"), "grüße\n"}, {"empty", str("empty"), ""},
		{"texts", strs("texts"), []string{"a", "", "ccc"}}, {"none", strs("none"), []string(nil)},
		{"i32s", ints("i32s"), []int64{-1, 0, 7}}, {"u8s", ints("u8s"), []int64{1, 2}},
		{"f32s", flts("f32s"), []float64{1, -2.5}}, {"bools", yess("bools"), []bool{true, false, true}},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", c.key, d)
		}
	}
	for name, want := range map[string][]float32{"a": {1, 2, 3, 4, 5, 6}, "b": {0.5, -2}} {
		got, err := f.ReadTensorF32(name)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("tensor %s: %v %s", name, err, d)
		}
	}
	row := make([]float32, 3)
	if err := f.ReadRows("a", row, 1); err != nil || row[2] != 6 {
		t.Errorf("row 1 of a: %v, %v", row, err)
	}
	r, err := f.TensorData("raw")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(r); !bytes.Equal(b, []byte{1, 2, 3, 4}) {
		t.Errorf("raw tensor: %v", b)
	}
	if again := bytesOf(t, every()); !bytes.Equal(data, again) {
		t.Error("the same calls gave other bytes")
	}
}

func TestWriterFaultsTogether(t *testing.T) {
	w := NewWriter()
	w.Set("bad", struct{}{})
	w.Set("", "x")
	w.Set("int", 1) // platform-sized: no fixed width
	w.AddF32("t", F32, []int64{0}, nil)
	w.AddF32("t", Q8_0, []int64{33}, nil)
	w.AddBytes("u", F32, []int64{1}, nil)
	w.AddBytes("u", F32, []int64{1}, nil)
	w.Set("general.alignment", uint32(3))
	_, err := w.WriteTo(io.Discard)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"bad: ", "empty", "int: ", "dimension 0 is 0", "multiple of 32", `"u": was added before`, "general.alignment: 3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestWriteFileAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	if err := every().WriteFile(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"short": 3, "long": 5} {
		w := NewWriter()
		w.AddBytes("u", F32, []int64{1}, make([]byte, size))
		if err := w.WriteFile(path); err == nil || !strings.Contains(err.Error(), `tensor "u"`) {
			t.Errorf("%s data: %v", name, err)
		}
	}
	after, _ := os.ReadFile(path)
	if !bytes.Equal(before, after) {
		t.Error("a failed write changed the file")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.String("text"); err == nil {
		t.Error("read after Close succeeded")
	}
}
