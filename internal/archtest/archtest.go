// Package archtest holds the repository to its own rules: who may import whom,
// where unsafe code may be, how packages are named, what must be documented.
//
// [Check] reads a file tree and returns the faults. It parses the files itself:
// a list made by a child process would be invisible to the test cache.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Fault is one broken rule.
type Fault struct {
	Path string // slash separated, from the root of the tree
	Line int    // 0 when the fault is the file's as a whole
	Rule string // short name: "imports", "docs", ...
	Text string
}

func (f Fault) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.Path, f.Line, f.Rule, f.Text)
}

// Limits of a file that people read.
const (
	maxLines = 450     // of a Go file outside tests
	maxText  = 1 << 20 // bytes; a larger file is data and not searched for words
)

// Check returns every fault of the tree, sorted by place. An error means that
// the tree cannot be read.
func Check(tree fs.FS) ([]Fault, error) {
	c := &checker{tree: tree, skip: ignored(tree)}
	if err := fs.WalkDir(tree, ".", c.visit); err != nil {
		return nil, fmt.Errorf("archtest: %w", err)
	}
	slices.SortFunc(c.faults, func(a, b Fault) int {
		if n := strings.Compare(a.Path, b.Path); n != 0 {
			return n
		}
		return a.Line - b.Line
	})
	return c.faults, nil
}

type checker struct {
	tree   fs.FS
	skip   []string // folders that are not part of the repository
	faults []Fault
}

func (c *checker) fault(path string, line int, rule, format string, args ...any) {
	c.faults = append(c.faults, Fault{path, line, rule, fmt.Sprintf(format, args...)})
}

// ignored lists the folders that .gitignore names from the root, "/bin/".
func ignored(tree fs.FS) []string {
	skip := []string{".git"}
	data, err := fs.ReadFile(tree, ".gitignore")
	if err != nil {
		return skip
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "/") && strings.HasSuffix(line, "/") {
			skip = append(skip, strings.Trim(line, "/"))
		}
	}
	return skip
}

func (c *checker) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if d.IsDir() {
		if slices.Contains(c.skip, name) {
			return fs.SkipDir
		}
		if name != "." && !strings.Contains(name, "/") && !slices.Contains(topLevel, name) {
			c.fault(name, 0, "top level", "this folder is not part of the design")
		}
		return nil
	}
	if !d.Type().IsRegular() {
		return nil
	}
	return c.file(name, d)
}

func (c *checker) file(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if info.Size() > maxText {
		return nil
	}
	data, err := fs.ReadFile(c.tree, name)
	if err != nil {
		return err
	}
	c.words(name, data)
	// testdata may hold Go files that are wrong on purpose.
	if strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/testdata/") {
		c.goFile(name, data)
	}
	return nil
}

func (c *checker) goFile(name string, data []byte) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.fault(name, 0, "syntax", "%v", err)
		return
	}
	g := &goFile{checker: c, name: name, set: set, syntax: f, test: strings.HasSuffix(name, "_test.go")}
	g.imports()
	g.names()
	g.inits()
	if !g.test {
		g.docs()
		if n := set.File(f.Pos()).LineCount(); n > maxLines {
			c.fault(name, n, "length", "%d lines, at most %d: split it by noun", n, maxLines)
		}
	}
}

// goFile is one parsed file under check.
type goFile struct {
	*checker
	name   string
	set    *token.FileSet
	syntax *ast.File
	test   bool
}

func (g *goFile) report(at token.Pos, rule, format string, args ...any) {
	g.fault(g.name, g.set.Position(at).Line, rule, format, args...)
}

// pkg is the package's path inside the module.
func (g *goFile) pkg() string { return path.Dir(g.name) }
