package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// raw builds headers byte by byte, valid or not.
type raw []byte

func (r raw) u32(n uint32) raw { return binary.LittleEndian.AppendUint32(r, n) }
func (r raw) u64(n uint64) raw { return binary.LittleEndian.AppendUint64(r, n) }
func (r raw) str(s string) raw { return append(r.u64(uint64(len(s))), s...) }
func (r raw) pad(n int) raw    { return append(r, make([]byte, n)...) }

func head(version uint32, tensors, keys uint64) raw {
	return raw("GGUF").u32(version).u64(tensors).u64(keys)
}

// oneKey is a header with one entry, whose type and payload the caller appends.
func oneKey(key string) raw { return head(3, 0, 1).str(key) }

// oneTensor is a file with one tensor and room for 64 bytes of data.
func oneTensor(typ uint32, off uint64, shape ...uint64) raw {
	r := head(3, 1, 0).str("w").u32(uint32(len(shape)))
	for _, d := range shape {
		r = r.u64(d)
	}
	return r.u32(typ).u64(off).pad(128)
}

// hostile are malformed files with a part of the message that must name the field.
var hostile = []struct {
	name string
	data raw
	want string
}{
	{"empty file", nil, "magic: at byte 0"},
	{"4-byte file", raw("GGUF"), "version: at byte 4"},
	{"other magic", raw("GGML").pad(60), `magic: found "GGML"`},
	{"version 1", head(1, 0, 0), "version: 1 is not supported"},
	{"version 4", head(4, 0, 0), "version: 4 is not supported"},
	{"big endian", head(0x03000000, 0, 0), "big endian"},
	{"tensor count 2^63", head(3, 1<<63, 0), "tensor_count: 9223372036854775808"},
	{"tensor count 2^64-1", head(3, 1<<64-1, 0), "tensor_count: 18446744073709551615"},
	{"key count 2^63", head(3, 0, 1<<63), "metadata_kv_count: 9223372036854775808"},
	{"more keys than bytes", head(3, 0, MaxKeys), "metadata key 0: at byte"},
	{"more tensors than bytes", head(3, MaxTensors, 0), "tensor 0: name: at byte"},
	{"key length 2^64-1", head(3, 0, 1).u64(1<<64 - 1), "metadata key 0: at byte 24: string length 18446744073709551615"},
	{"key length past end", head(3, 0, 1).u64(100), "metadata key 0: at byte 24: string length 100 runs past the end"},
	{"empty key", oneKey(""), "metadata key 0: is empty"},
	{"zero byte in key", oneKey("a\x00b").u32(7).pad(1), "metadata key 0:"},
	{"line break in key", oneKey("a\nb").u32(7).pad(1), "contains a control character"},
	{"key not UTF-8", oneKey("\xff").u32(7).pad(1), "metadata key 0:"},
	{"key twice", head(3, 0, 2).str("k").u32(0).pad(1).str("k").u32(0).pad(1), `metadata key "k" is there twice`},
	{"type out of range", oneKey("k").u32(13).pad(8), "k: value type 13"},
	{"type 2^32-1", oneKey("k").u32(1<<32 - 1).pad(8), "k: value type 4294967295"},
	{"string length 2^64-1", oneKey("k").u32(8).u64(1<<64 - 1), "k: string 0: at byte 37: string length 18446744073709551615"},
	{"string length 2^63", oneKey("k").u32(8).u64(1 << 63), "k: string 0:"},
	{"value past end", oneKey("k").u32(10).pad(7), "k: at byte"},
	{"nested array", oneKey("k").u32(9).u32(9).u64(1).u32(0).u64(1).pad(1), "k: is an array of arrays"},
	{"array type out of range", oneKey("k").u32(9).u32(99).u64(0), "k: value type 99"},
	{"array length 2^63", oneKey("k").u32(9).u32(0).u64(1 << 63), "k: array length: 9223372036854775808"},
	{"array length wraps", oneKey("k").u32(9).u32(12).u64(1 << 61), "k: array length:"},
	{"array past end", oneKey("k").u32(9).u32(4).u64(4).pad(15), "k: at byte"},
	{"string array past end", oneKey("k").u32(9).u32(8).u64(MaxArray), "k: 8388608 strings do not fit"},
	{"string in array 2^64-1", oneKey("k").u32(9).u32(8).u64(2).str("a").u64(1<<64 - 1), "k: string 1:"},
	{"alignment 0", oneKey(keyAlignment).u32(4).u32(0), "general.alignment: 0"},
	{"alignment 3", oneKey(keyAlignment).u32(4).u32(3), "general.alignment: 3"},
	{"alignment 0x80000000", oneKey(keyAlignment).u32(4).u32(0x80000000), "general.alignment: 2147483648"},
	{"alignment string", oneKey(keyAlignment).u32(8).str("32"), "general.alignment: is string, want u32"},
	{"alignment u64", oneKey(keyAlignment).u32(10).u64(32), "general.alignment: is u64, want u32"},
	{"tensor name too long", head(3, 1, 0).str(strings.Repeat("n", 64)).pad(64), "tensor 0: name: at byte 24: string length 64"},
	{"tensor name empty", head(3, 1, 0).str("").pad(64), "tensor 0: name: is empty"},
	{"tensor twice", head(3, 2, 0).str("w").u32(1).u64(1).u32(0).u64(0).str("w").u32(1).u64(1).u32(0).u64(32).pad(64), `tensor "w" is there twice`},
	{"no dimensions", oneTensor(0, 0), `tensor "w": has 0 dimensions`},
	{"five dimensions", oneTensor(0, 0, 1, 1, 1, 1, 1), `tensor "w": has 5 dimensions`},
	{"2^32-1 dimensions", head(3, 1, 0).str("w").u32(1<<32 - 1).pad(64), `tensor "w": has 4294967295 dimensions`},
	{"dimension 0", oneTensor(0, 0, 4, 0), `tensor "w": dimension 1 is 0`},
	{"dimension negative", oneTensor(0, 0, 1<<64-1), `tensor "w": dimension 0 is 18446744073709551615`},
	{"tensor type out of range", oneTensor(43, 0, 4), `tensor "w": tensor type 43`},
	{"tensor type 2^32-1", oneTensor(1<<32-1, 0, 4), `tensor "w": tensor type 4294967295`},
	{"withdrawn tensor type", oneTensor(4, 0, 32), `tensor "w": tensor type 4`},
	{"part of a block", oneTensor(8, 0, 33), `tensor "w": row of 33 elements`},
	{"shape 2^42+1", oneTensor(0, 0, 1<<42+1), `tensor "w": offset 0 + size 17592186044420`},
	{"shape 2^42+1 squared", oneTensor(0, 0, 1<<42+1, 1<<42+1), `tensor "w": shape`},
	{"shape times type wraps", oneTensor(0, 0, 1<<62), `tensor "w": row of 4611686018427387904`},
	{"rows times row wraps", oneTensor(0, 0, 1<<31, 1<<31), `tensor "w": shape [2147483648 2147483648] of F32 has too many bytes`},
	{"four dimensions wrap to 0", oneTensor(24, 0, 1<<16, 1<<16, 1<<16, 1<<16), `tensor "w": shape`},
	{"offset past end", oneTensor(0, 1<<40, 4), `tensor "w": offset is 1099511627776`},
	{"offset 2^64-1", oneTensor(0, 1<<64-1, 4), `tensor "w": offset 18446744073709551615`},
	{"offset unaligned", oneTensor(0, 1, 4), `tensor "w": offset is 1, want 0`},
	{"size past end", oneTensor(0, 0, 64), `tensor "w": offset 0 + size 256 is past the end`},
	{"overlapping tensors", head(3, 2, 0).str("v").u32(1).u64(8).u32(0).u64(0).str("w").u32(1).u64(8).u32(0).u64(0).pad(128),
		`tensor "w": offset is 0, want 32`},
	{"sizes whose sum wraps", head(3, 2, 0).str("v").u32(1).u64(1<<61 - 32).u32(24).u64(0).
		str("w").u32(1).u64(1 << 61).u32(24).u64(1<<61 - 32).pad(128), `tensor "v": offset 0 + size 2305843009213693920`},
}

func TestHostile(t *testing.T) {
	dir := t.TempDir()
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, "f.gguf")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			refused(t, c.want, func() error { return open(path) })
		})
	}
}

func open(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return CheckModel(f)
}

// maxExtra is what refusing a file may allocate in all, even when freed again.
const maxExtra = 64 << 20

// refused runs try, which must return an error containing want, within the
// memory bound and without hanging.
func refused(t *testing.T, want string, try func() error) {
	t.Helper()
	done := make(chan error, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() { done <- try() }()
	select {
	case err := <-done:
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Fatal("accepted")
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message %q does not contain %q", err, want)
		}
		if extra := after.TotalAlloc - before.TotalAlloc; extra > maxExtra {
			t.Errorf("allocated %d bytes, at most %d are allowed", extra, maxExtra)
		}
	case <-time.After(time.Minute): // a guard against hanging, not a timing
		t.Fatal("hangs")
	}
}

// sparse is a file of any size whose content is a header, a repeated pattern
// up to end, and zeros.
type sparse struct {
	head   raw
	repeat []byte
	end    int64
}

func (s sparse) ReadAt(b []byte, off int64) (int, error) {
	for i := range b {
		at := off + int64(i)
		switch n := int64(len(s.head)); {
		case at < n:
			b[i] = s.head[at]
		case at < s.end:
			b[i] = s.repeat[(at-n)%int64(len(s.repeat))]
		default:
			b[i] = 0
		}
	}
	return len(b), nil
}

// TestHugeHostile feeds headers that are really as long as they say.
func TestHugeHostile(t *testing.T) {
	const size = 1 << 40
	for _, c := range []struct {
		name string
		src  sparse
		want string
	}{
		{"array of empty strings", sparse{head: oneKey("k").u32(9).u32(8).u64(MaxArray)}, keyArchitecture},
		{"tokens all empty", sparse{head: head(3, 0, 3).str(keyArchitecture).u32(8).str("llama").
			str(keyTokenizer + "model").u32(8).str("gpt2").
			str(keyTokenizer + "tokens").u32(9).u32(8).u64(MaxArray)}, "tokenizer.ggml.tokens: length 8388608"},
		{"as many tokens as may be", sparse{head: head(3, 0, 5).str(keyArchitecture).u32(8).str("llama").
			str(keyTokenizer + "model").u32(8).str("gpt2").
			str(keyTokenizer + "merges").u32(9).u32(8).u64(0).
			str(keyTokenizer + "token_type").u32(9).u32(5).u64(maxVocab).pad(4 * maxVocab).
			str(keyTokenizer + "tokens").u32(9).u32(8).u64(maxVocab)}, "llama.block_count"},
		{"strings beyond the header", sparse{head: oneKey("k").u32(9).u32(8).u64(MaxArray),
			repeat: raw{}.str(strings.Repeat("x", 92)), end: size}, "k: string"},
		{"keys without end", sparse{head: head(3, 0, MaxKeys), repeat: raw{}.str(strings.Repeat("k", 1012)), end: size}, "value type 1012"},
		{"tensors without end", sparse{head: head(3, MaxTensors, 0),
			repeat: raw{}.str("w").u32(1).u64(1).u32(0).u64(0), end: size}, `tensor "w" is there twice`},
		{"huge string value", sparse{head: oneKey(keyArchitecture).u32(8).u64(MaxString)}, keyArchitecture + ": is 33554432 bytes long"},
		{"huge numeric arrays", sparse{head: hugeArrays(8)}, "k2: at byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, c.want, func() error {
				f, err := Read(c.src, size)
				if err != nil {
					return err
				}
				return CheckModel(f)
			})
		})
	}
}

// hugeArrays is a header whose first array really takes 64 MiB.
func hugeArrays(keys uint64) raw {
	r := head(3, 0, keys).str("k0").u32(9).u32(12).u64(MaxArray).pad(MaxArray * 8)
	r = r.str("k1").u32(9).u32(12).u64(MaxArray - 64).pad((MaxArray - 64) * 8)
	return r.str("k2").u32(9).u32(12).u64(MaxArray)
}

func TestTruncatedAtEveryByte(t *testing.T) {
	data := bytesOf(t, modelWriter())
	if f, err := parse(data); err != nil {
		t.Fatal(err)
	} else if err := CheckModel(f); err != nil {
		t.Fatal(err)
	}
	f, _ := parse(data)
	last := f.Tensors[len(f.Tensors)-1]
	needed := int(f.DataOffset + last.Offset + last.Size)
	for n := range needed {
		if _, err := parse(data[:n]); err == nil {
			t.Fatalf("a file cut to %d of %d bytes was accepted", n, needed)
		}
	}
	if _, err := parse(data[:needed]); err != nil {
		t.Errorf("without the last padding: %v", err)
	}
}

// TestFlippedBytes changes each byte of the header in turn: whatever the
// reader and the checks say, they must not panic.
func TestFlippedBytes(t *testing.T) {
	data := bytesOf(t, modelWriter())
	f, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int(f.DataOffset) {
		for _, x := range []byte{0x01, 0x80, 0xff} {
			data[i] ^= x
			if f, err := parse(data); err == nil {
				exercise(f)
			}
			data[i] ^= x
		}
	}
}

// exercise calls everything on a file that was accepted.
func exercise(f *File) {
	_ = CheckModel(f)
	_, _ = f.Fingerprint()
	for _, k := range f.Keys() {
		_, _ = f.Uint(k)
		_, _ = f.Int(k)
		_, _ = f.Float(k)
		_, _ = f.Bool(k)
		_, _ = f.String(k)
		_, _ = f.Strings(k)
		_, _ = f.Ints(k)
		_, _ = f.Floats(k)
		_, _ = f.Bools(k)
	}
	for i := range f.Tensors {
		if t := &f.Tensors[i]; t.Elements() < 1<<20 {
			_, _ = f.ReadTensorF32(t.Name)
		}
	}
}

func TestShrunkFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := modelWriter().WriteFile(path); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{CheckModel(f), second(f.ReadTensorF32("token_embd.weight")), second(f.Fingerprint())} {
		if err == nil || !strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()) {
			t.Errorf("after the file shrank: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestGetterErrors(t *testing.T) {
	f, err := parse(bytesOf(t, every()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(f.Uint("no")), "no: not in the file, want a non-negative integer"},
		{second(f.Uint("i8")), "i8: is -100, want a non-negative integer"},
		{second(f.Uint("text")), "text: is string, want a non-negative integer"},
		{second(f.Int("u64")), "u64: is 9223372036854775809, want at most"},
		{second(f.Float("u8")), "u8: is u8, want a floating-point number"},
		{second(f.Bool("u8")), "u8: is u8, want a bool"},
		{second(f.String("texts")), "texts: is array of string, want a string"},
		{second(f.Strings("i32s")), "i32s: is array of i32, want an array of strings"},
		{second(f.Ints("f32s")), "f32s: is array of f32, want an array of integers"},
		{second(f.Floats("i32s")), "i32s: is array of i32, want an array of floating-point"},
		{second(f.Bools("u8s")), "u8s: is array of u8, want an array of bools"},
		{second(f.Tensor("no")), `tensor "no": not in the file`},
		{second(f.ReadTensorF32("raw")), `tensor "raw": gguf: decode: I32 is not supported`},
		{f.ReadRows("a", make([]float32, 4), 0), "are not whole rows"},
		{f.ReadRows("a", make([]float32, 6), 1), "are not whole rows"},
		{f.ReadRows("a", make([]float32, 3), -1), "are not whole rows"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v, want %q", c.err, c.want)
		}
	}
}

// FuzzRead looks for files that make any call panic or hang.
func FuzzRead(f *testing.F) {
	f.Add(bytesOf(f, modelWriter()))
	f.Add(bytesOf(f, every()))
	for _, c := range hostile {
		f.Add([]byte(c.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "gguf: ") {
				t.Errorf("error without a prefix: %v", err)
			}
			return
		}
		for i := range file.Tensors {
			ts := &file.Tensors[i]
			if ts.Size <= 0 || file.DataOffset+ts.Offset+ts.Size > file.Size {
				t.Errorf("tensor %+v reaches outside the file of %d", ts, file.Size)
			}
		}
		exercise(file)
	})
}

func ExampleOpen() {
	_, err := Open("no-such-file.gguf")
	fmt.Println(err != nil)
	// Output: true
}
