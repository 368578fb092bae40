package libs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// manifest records what Install has put into a folder. It is written last, so
// a folder that has one was complete.
type manifest struct {
	Version  string            `json:"version"`
	Llama    string            `json:"llama_cpp"`
	Backend  string            `json:"backend"`
	Packages []manifestPackage `json:"packages"`
	Files    []manifestFile    `json:"files"`
}

type manifestPackage struct {
	Name      string `json:"name"`
	Integrity string `json:"integrity"`
}

type manifestFile struct {
	Path   string `json:"path"` // below the folder, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

const (
	manifestName = "manifest.json"
	maxManifest  = 1 << 20
)

func (m *manifest) write(d disk, dir string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := d.create(filepath.Join(dir, manifestName))
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", manifestName, err)
	}
	return syncDir(dir)
}

func readManifest(dir string) (*manifest, error) {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxManifest {
		return nil, errors.New(manifestName + " is too long")
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	for _, file := range m.Files {
		if !plainPath.MatchString(file.Path) {
			return nil, fmt.Errorf("%s: unsafe path %q", manifestName, file.Path)
		}
	}
	return &m, nil
}

// checkSizes is the quick check that Find makes: every file is there and has
// its length.
func checkSizes(dir string) error {
	m, err := readManifest(dir)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil {
			return err
		}
		if st.Size() != f.Size {
			return fmt.Errorf("%s has %d bytes, not %d", f.Path, st.Size(), f.Size)
		}
	}
	return nil
}

// verify is the full check that Install makes: the folder was made from the
// packages of b, and every file has its sha256.
func (o Options) verify(dir string, b build) error {
	m, err := readManifest(dir)
	if err != nil {
		return err
	}
	if err := m.matches(b); err != nil {
		return err
	}
	if err := checkSizes(dir); err != nil {
		return err
	}
	p := Progress{Stage: StageVerify, Package: b.folder}
	for _, f := range m.Files {
		p.Total += f.Size
	}
	o.Progress(p)
	for _, f := range m.Files {
		sum, err := hashFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil {
			return err
		}
		if sum != f.SHA256 {
			return fmt.Errorf("%s was changed: sha256 %s, not %s", f.Path, sum, f.SHA256)
		}
		p.Done += f.Size
		o.Progress(p)
	}
	p.Finished = true
	o.Progress(p)
	return nil
}

func (m *manifest) matches(b build) error {
	if m.Version != Version || len(m.Packages) != len(b.packages) {
		return fmt.Errorf("made from version %s with %d packages", m.Version, len(m.Packages))
	}
	for i, p := range b.packages {
		got := m.Packages[i]
		if got.Name != scope+p.name || (p.pin != "" && got.Integrity != p.pin) {
			return fmt.Errorf("made from another %s", got.Name)
		}
	}
	return nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
