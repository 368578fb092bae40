package libs

import (
	"context"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	maxTarball = 1 << 30 // bytes; the largest package has 177 MB
	stderrTail = 4096    // bytes of npm's error output that are kept
	npmGrace   = 5 * time.Second
)

// fetch has npm put the package's tarball into dir and returns its path.
func (o Options) fetch(ctx context.Context, dir string, p pkg) (string, error) {
	npm, err := exec.LookPath(o.Npm)
	if err != nil {
		return "", fmt.Errorf("%w (%s): install Node.js with npm, or install llama.cpp %s another way and use --lib", ErrNoNpm, o.Npm, LlamaVersion)
	}
	// An empty working folder keeps npm from reading a project's settings.
	cwd := filepath.Join(dir, "cwd")
	if err := os.MkdirAll(cwd, 0o755); err != nil {
		return "", err
	}
	o.Progress(Progress{Stage: StageDownload, Package: p.spec(), Total: p.size})
	tail := &tailWriter{max: stderrTail}
	cmd := exec.CommandContext(ctx, npm, "pack", p.spec(), "--pack-destination", dir,
		"--ignore-scripts", "--loglevel=error", "--fetch-retries=2", "--fetch-retry-mintimeout=1000")
	cmd.Dir = cwd
	cmd.Stderr = tail
	cmd.WaitDelay = npmGrace
	if err := cmd.Run(); err != nil {
		return "", npmError(ctx, p, err, tail.String())
	}
	tgz, err := onlyTarball(dir)
	if err != nil {
		return "", fmt.Errorf("%w %s: %w", ErrDownload, p.spec(), err)
	}
	o.Progress(Progress{Stage: StageDownload, Package: p.spec(), Done: p.size, Total: p.size, Finished: true})
	return tgz, nil
}

func npmError(ctx context.Context, p pkg, err error, tail string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("npm pack %s: %w", p.spec(), context.Cause(ctx))
	}
	what := "check the network and npm's settings"
	if strings.Contains(tail, "ENOSPC") {
		what = "make room on the disk"
	}
	return fmt.Errorf("%w %s (%w); %s, or install llama.cpp %s another way and use --lib; npm said:\n%s",
		ErrDownload, p.spec(), err, what, LlamaVersion, indent(tail))
}

func indent(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		s = "(nothing)"
	}
	return "  " + strings.ReplaceAll(s, "\n", "\n  ")
}

// onlyTarball returns the one file that npm has left in dir.
func onlyTarball(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.tgz"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("npm left %d tarballs, not 1", len(found))
	}
	st, err := os.Lstat(found[0])
	switch {
	case err != nil:
		return "", err
	case !st.Mode().IsRegular():
		return "", errors.New("npm left something that is no file")
	case st.Size() > maxTarball:
		return "", fmt.Errorf("tarball of %d bytes is over the limit of %d", st.Size(), int64(maxTarball))
	}
	return found[0], nil
}

// checkHash compares the tarball with the pin and returns its sha512 in npm's
// notation.
func (o Options) checkHash(ctx context.Context, tgz string, p pkg) (string, error) {
	f, err := os.Open(tgz)
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha512.New()
	m := &meter{ctx: ctx, report: o.Progress, p: Progress{Stage: StageCheck, Package: p.spec(), Total: st.Size()}}
	m.start()
	if _, err := io.Copy(h, io.TeeReader(f, m)); err != nil {
		return "", err
	}
	m.finish()
	got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil))
	if p.pin != "" && subtle.ConstantTimeCompare([]byte(got), []byte(p.pin)) == 0 {
		return "", fmt.Errorf("%s: %w: nothing was installed\n  expected %s\n  got      %s", p.spec(), ErrHash, p.pin, got)
	}
	return got, nil
}

// tailWriter keeps the last max bytes written to it.
type tailWriter struct {
	buf []byte
	max int
}

func (t *tailWriter) Write(b []byte) (int, error) {
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*t.max {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.max:]...)
	}
	return len(b), nil
}

func (t *tailWriter) String() string {
	b := t.buf
	if len(b) > t.max {
		b = b[len(b)-t.max:]
	}
	return strings.ToValidUTF8(string(b), "")
}

// meter counts bytes for progress reports, one per reportEvery bytes, and
// stops the copy when the context ends.
type meter struct {
	ctx    context.Context
	report func(Progress)
	p      Progress
	last   int64
}

const reportEvery = 1 << 20

func (m *meter) start() { m.report(m.p) }

func (m *meter) Write(b []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, context.Cause(m.ctx)
	}
	m.p.Done += int64(len(b))
	if m.p.Done-m.last >= reportEvery {
		m.last = m.p.Done
		m.report(m.p)
	}
	return len(b), nil
}

func (m *meter) finish() {
	m.p.Finished = true
	m.report(m.p)
}
