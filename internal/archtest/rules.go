package archtest

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func (g *goFile) imports() {
	for _, spec := range g.syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			g.report(spec.Pos(), "syntax", "%v", err)
			continue
		}
		inside, ok := strings.CutPrefix(p, module+"/")
		switch {
		case p == "C":
			g.report(spec.Pos(), "cgo", "the module must build without cgo")
		case ok:
			g.inside(spec.Pos(), inside)
		case slices.ContainsFunc(unsafeImports, func(u string) bool { return match(u, p) }) && !match(unsafeBelow, g.pkg()):
			g.report(spec.Pos(), "unsafe", "%s may only be imported below %s", p, strings.TrimSuffix(unsafeBelow, "/..."))
		}
	}
}

func (g *goFile) inside(at token.Pos, imported string) {
	r := rowOf(g.pkg())
	if r == nil {
		g.report(at, "imports", "package %s has no row in the import table", g.pkg())
		return
	}
	if !r.allows(g.pkg(), imported, g.test) {
		g.report(at, "imports", "%s must not import %s (it may: %s)", g.pkg(), imported, strings.Join(r.allowed, ", "))
	}
}

// names rejects package and folder names that mean nothing.
func (g *goFile) names() {
	pkg := strings.TrimSuffix(g.syntax.Name.Name, "_test")
	if slices.Contains(vague, pkg) || slices.Contains(vague, path.Base(g.pkg())) {
		g.report(g.syntax.Name.Pos(), "name", "a package named %q does not say what it is for", pkg)
	}
}

func (g *goFile) inits() {
	for _, d := range g.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			g.report(f.Pos(), "init", "nothing may run before main")
		}
	}
}

// obvious methods need no comment: everybody knows what they do.
var obvious = []string{"String", "Error", "Unwrap", "Is", "As"}

// docs demands a comment on every exported name at the top of the file, and on
// the methods of exported types.
func (g *goFile) docs() {
	for _, d := range g.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !(d.Recv != nil && slices.Contains(obvious, d.Name.Name)) {
				g.report(d.Pos(), "docs", "%s has no comment", d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				g.specDocs(d, spec)
			}
		}
	}
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return true
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func (g *goFile) specDocs(d *ast.GenDecl, spec ast.Spec) {
	documented := d.Doc != nil
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !documented && spec.Doc == nil && spec.Comment == nil && spec.Name.IsExported() {
			g.report(spec.Pos(), "docs", "%s has no comment", spec.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if !documented && spec.Doc == nil && spec.Comment == nil && name.IsExported() && !listed(d, spec) {
				g.report(name.Pos(), "docs", "%s has no comment", name.Name)
			}
		}
	}
}

// listed reports whether a constant is one of a list that is explained as a
// whole: values of an exported type, which has its own comment, or a run of
// iota whose first constant is explained.
func listed(d *ast.GenDecl, spec *ast.ValueSpec) bool {
	if d.Tok != token.CONST {
		return false
	}
	if spec.Type == nil && len(spec.Values) == 0 {
		first, ok := d.Specs[0].(*ast.ValueSpec)
		return ok && (first.Doc != nil || first.Comment != nil || exportedType(first))
	}
	return exportedType(spec)
}

func exportedType(spec *ast.ValueSpec) bool {
	t, ok := spec.Type.(*ast.Ident)
	return ok && t.IsExported()
}

// forbidden are words that no file may hold, each with the reason. They are put
// together here so that this file does not hold them either.
var forbidden = []struct{ word, rule, why string }{
	{"TO" + "DO", "unfinished", "finish it or leave it out"},
	{"FIX" + "ME", "unfinished", "finish it or leave it out"},
	{"registry.npm" + "js.org", "registry", "the reader's npm client knows its registry"},
	{"registry." + "yarnpkg.com", "registry", "the reader's client knows its registry"},
	{"npm" + "mirror.com", "registry", "the reader's client knows its registry"},
	{"proxy." + "golang.org", "registry", "the reader's Go command knows its proxy"},
	{"sum." + "golang.org", "registry", "the reader's Go command knows its proxy"},
	{"py" + "pi.org", "registry", "the reader's client knows its registry"},
	{"files." + "pythonhosted.org", "registry", "the reader's client knows its registry"},
}

// words searches a text file for forbidden words. Capital letters count.
func (c *checker) words(name string, data []byte) {
	if bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
		return // not text
	}
	for _, f := range forbidden {
		for at := 0; ; {
			i := bytes.Index(data[at:], []byte(f.word))
			if i < 0 {
				break
			}
			start, end := at+i, at+i+len(f.word)
			if !inWord(data, start, end) {
				c.fault(name, 1+bytes.Count(data[:start], []byte("\n")), f.rule, "%q: %s", f.word, f.why)
			}
			at = end
		}
	}
}

// inWord reports whether a match is only a part of a longer word.
func inWord(data []byte, start, end int) bool {
	letter := func(i int) bool {
		return i >= 0 && i < len(data) && (data[i]|0x20 >= 'a' && data[i]|0x20 <= 'z')
	}
	return letter(start) && letter(start-1) || letter(end-1) && letter(end)
}
