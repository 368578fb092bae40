package reach

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

// Keys and tensors of a trajectory file, beside those of a value function.
const (
	keySites   = "trimtab.sites"   // layers
	keyWidth   = "trimtab.width"   // of the residual
	keyGroups  = "trimtab.groups"  // one text a trajectory
	keyLengths = "trimtab.lengths" // tokens a trajectory
	keyTokens  = "trimtab.tokens"  // of all, one after the other

	tensorFeatures = "features" // F16 or F32, a row a token
	tensorMargins  = "margins"  // F32, tokens + 1 a trajectory; absent when not labelled

	dataArch = "trimtab-trajectories"
	// maxDataFile is the size of a file in bytes, and with it most of what
	// reading one can take.
	maxDataFile = 8 << 30
)

// WriteFile writes the data to path, all or nothing. Features are kept in half
// precision when that loses nothing, as it is with what a [Tape] recorded, else
// as they are: what is read back is equal. Either all texts are labelled or none.
func (d *Data) WriteFile(path string) error {
	w, err := d.writer()
	if err == nil {
		err = w.WriteFile(path)
	}
	if err != nil {
		return fmt.Errorf("reach: write trajectories: %w", err)
	}
	return nil
}

// WriteTo writes the bytes that WriteFile would, and returns their number.
func (d *Data) WriteTo(out io.Writer) (int64, error) {
	w, err := d.writer()
	if err != nil {
		return 0, fmt.Errorf("reach: write trajectories: %w", err)
	}
	return w.WriteTo(out)
}

func (d *Data) writer() (*gguf.Writer, error) {
	if len(d.Trajectories) == 0 {
		return nil, errors.New("there are none")
	}
	labelled := d.Trajectories[0].Margins != nil
	if err := d.Check(labelled); err != nil {
		return nil, err
	}
	w := gguf.NewWriter()
	w.Set(keyArchitecture, dataArch)
	w.Set(keyVersion, uint32(ownVersion))
	for _, t := range d.texts() {
		if *t.value != "" {
			w.Set(t.key, *t.value)
		}
	}
	var sites, lengths, tokens []int32
	var groups []string
	var margins []float32
	for _, s := range d.Sites {
		sites = append(sites, int32(s.Layer))
	}
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		if err := checkText(t.Group); err != nil {
			return nil, fmt.Errorf("trajectory %d: group: %w", i, err)
		}
		if (t.Margins != nil) != labelled {
			return nil, fmt.Errorf("trajectory %d: some are labelled and some are not", i)
		}
		groups, lengths = append(groups, t.Group), append(lengths, int32(len(t.Tokens)))
		for _, k := range t.Tokens {
			tokens = append(tokens, int32(k))
		}
		margins = append(margins, t.Margins...)
	}
	w.Set(keySites, sites)
	w.Set(keyWidth, uint32(d.Width))
	w.Set(keyGroups, groups)
	w.Set(keyLengths, lengths)
	w.Set(keyTokens, tokens)
	typ := d.storage()
	w.Add(tensorFeatures, typ, []int64{int64(d.rowWidth()), int64(len(tokens))}, func(out io.Writer) error { return d.writeFeatures(out, typ) })
	if labelled {
		w.AddF32(tensorMargins, gguf.F32, []int64{int64(len(margins))}, margins)
	}
	return w, nil
}

func (d *Data) texts() []textField {
	return []textField{{keyModelHash, &d.ModelHash}, {keyArch, &d.Arch}, {keyTemplateHash, &d.TemplateHash}}
}

// storage is half precision where that loses nothing.
func (d *Data) storage() gguf.TensorType {
	for i := range d.Trajectories {
		for _, x := range d.Trajectories[i].Features {
			if gguf.F32FromF16(gguf.F16FromF32(x)) != x {
				return gguf.F32
			}
		}
	}
	return gguf.F16
}

func (d *Data) writeFeatures(out io.Writer, typ gguf.TensorType) error {
	for i := range d.Trajectories {
		f := d.Trajectories[i].Features
		size, err := typ.RowSize(int64(len(f)))
		if err != nil {
			return err
		}
		b := make([]byte, size)
		if err := gguf.EncodeRow(typ, b, f); err != nil {
			return err
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// ReadData reads a trajectory file. All faults of the header are reported at
// once. It takes four bytes of memory a feature.
func ReadData(path string) (*Data, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reach: read trajectories: %w", err)
	}
	defer f.Close()
	d, err := readData(f)
	if err != nil {
		return nil, fmt.Errorf("reach: read trajectories: %s: %w", path, err)
	}
	return d, nil
}

// ReadDataFrom is ReadData over a source of the given size in bytes.
func ReadDataFrom(src io.ReaderAt, size int64) (*Data, error) {
	f, err := gguf.Read(src, size)
	if err != nil {
		return nil, fmt.Errorf("reach: read trajectories: %w", err)
	}
	d, err := readData(f)
	if err != nil {
		return nil, fmt.Errorf("reach: read trajectories: %w", err)
	}
	return d, nil
}

func readData(f *gguf.File) (*Data, error) {
	if f.Size > maxDataFile {
		return nil, fmt.Errorf("size: %d bytes are over the limit of %d", f.Size, int64(maxDataFile))
	}
	r := &fields{f: f}
	if !r.kind(dataArch, "a trajectory file") {
		return nil, errors.Join(r.faults...)
	}
	d := &Data{Width: r.number(keyWidth, 1, steer.MaxValueWidth)}
	for _, t := range d.texts() {
		*t.value = r.text(t.key)
	}
	for _, layer := range r.ints(keySites, MaxSites) {
		if layer < 0 || layer >= steer.MaxVectorLayers {
			r.fault("%s: block %d is not in 0 to %d", keySites, layer, steer.MaxVectorLayers-1)
			continue
		}
		d.Sites = append(d.Sites, steer.Site{Layer: int(layer)})
	}
	lengths, tokens := r.ints(keyLengths, MaxTrajectories), r.ints(keyTokens, MaxRows)
	groups, err := f.Strings(keyGroups)
	if err != nil {
		r.faults = append(r.faults, err)
	} else if len(groups) != len(lengths) {
		r.fault("%s: %d texts for %d trajectories", keyGroups, len(groups), len(lengths))
	}
	if len(r.faults) == 0 {
		r.cut(d, groups, lengths, tokens)
	}
	if err := r.done(); err != nil {
		return nil, err
	}
	return d, d.Check(len(d.Trajectories) > 0 && d.Trajectories[0].Margins != nil)
}

// ints reads a list of bounded length.
func (r *fields) ints(key string, most int) []int64 {
	if v, ok := r.f.Meta(key); ok && v.Len > most {
		r.fault("%s: %d values are over the limit of %d", key, v.Len, most)
		return nil
	}
	list, err := r.f.Ints(key)
	if err != nil {
		r.faults = append(r.faults, err)
	}
	return list
}

// cut makes the trajectories.
func (r *fields) cut(d *Data, groups []string, lengths, tokens []int64) {
	total := int64(0)
	for i, n := range lengths {
		if n < 1 || n > int64(len(tokens))-total {
			r.fault("%s: trajectory %d has %d tokens, %d are left", keyLengths, i, n, int64(len(tokens))-total)
			return
		}
		total += n
	}
	if total != int64(len(tokens)) {
		r.fault("%s: %d tokens for lengths that add up to %d", keyTokens, len(tokens), total)
		return
	}
	features, err := r.f.Tensor(tensorFeatures)
	if err != nil {
		r.faults = append(r.faults, err)
		return
	}
	width := int64(d.rowWidth())
	if features.Type != gguf.F16 && features.Type != gguf.F32 || features.Shape[0] != width || features.Rows() != total {
		r.fault("tensor %q: %s of shape %v, want F16 or F32 of %d by %d", tensorFeatures, features.Type, features.Shape, width, total)
		return
	}
	margins, err := r.margins(total + int64(len(lengths)))
	if err != nil {
		r.faults = append(r.faults, err)
		return
	}
	row, at := int64(0), 0
	for i, n := range lengths {
		t := Trajectory{Group: groups[i], Tokens: make([]decode.Token, n), Features: make([]float32, n*width)}
		for k := range t.Tokens {
			x := tokens[row+int64(k)]
			if x < 0 || x > math.MaxInt32 {
				r.fault("%s: trajectory %d: %d is not a token", keyTokens, i, x)
				return
			}
			t.Tokens[k] = decode.Token(x)
		}
		if err := r.f.ReadRows(tensorFeatures, t.Features, row); err != nil {
			r.faults = append(r.faults, err)
			return
		}
		if margins != nil {
			t.Margins = margins[at : at+int(n)+1 : at+int(n)+1]
			at += int(n) + 1
		}
		row += n
		d.Trajectories = append(d.Trajectories, t)
	}
}

// margins reads the labels, nil when there are none.
func (r *fields) margins(want int64) ([]float32, error) {
	t, err := r.f.Tensor(tensorMargins)
	if errors.Is(err, gguf.ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if t.Type != gguf.F32 || t.Elements() != want || t.Rows() != 1 {
		return nil, fmt.Errorf("tensor %q: %s of shape %v, want F32 of %d", tensorMargins, t.Type, t.Shape, want)
	}
	return r.f.ReadTensorF32(tensorMargins)
}
