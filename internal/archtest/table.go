package archtest

import "strings"

const module = "github.com/trimtab/trimtab"

// topLevel are the folders of DESIGN.md, and those every repository has.
var topLevel = []string{
	"decode", "steer", "monitors", "runtime", "plugins", "bindings", "examples", "cmd", "internal",
	"docs", "testdata", ".ci",
}

// A row says what the packages that match may import inside the module. In
// patterns, "x" is that package alone and "x/..." also everything below it.
// "own" stands for the packages with the same first two path elements.
type row struct {
	packages string
	allowed  []string
}

// leaves know nothing of the rest of the module, so everybody may use them,
// except the packages whose row says otherwise.
const leaves = "internal/..."

// table is the import table of DESIGN.md. The first row that matches counts.
var table = []row{
	{"decode", []string{"internal/vec"}},
	{"decode/...", []string{"decode", leaves}},
	{"steer", []string{"internal/vec", "internal/gguf"}},
	{"steer/bandit/...", []string{"steer", "internal/vec"}},
	{"steer/...", []string{"steer", "decode", "runtime/engine", leaves}},
	{"monitors", []string{"decode", "steer", leaves}},
	{"monitors/conformal/...", []string{"monitors", "internal/vec"}},
	{"monitors/...", []string{"monitors", "monitors/conformal", "decode", "steer", "runtime/engine", leaves}},
	{"runtime/engine", []string{"decode", "steer", leaves}},
	{"runtime/engine/chat/...", []string{"decode", "runtime/engine", "runtime/engine/chat/...", leaves}},
	{"runtime/engine/...", []string{"decode", "steer", "runtime/engine", leaves}},
	{"runtime", []string{"decode", "steer", "monitors", "runtime/engine", "runtime/engine/chat", leaves}},
	{"runtime/...", []string{"decode", "steer", "monitors", "runtime/engine", "runtime/engine/chat", "runtime", "own", leaves}},
	{"plugins/guest/...", []string{"own"}},
	{"plugins/...", []string{"decode", "steer", "monitors", "runtime", "own", leaves}},
	{"bindings/...", []string{"decode", "steer", "runtime/engine", "own", leaves}},
	{"cmd/...", everything},
	{"examples/...", everything},
	{"internal/bake/...", []string{"steer", leaves}},
	{"internal/...", []string{leaves}},
}

var everything = []string{
	"decode/...", "steer/...", "monitors/...", "runtime/...", "plugins/...", "bindings/...", "own", leaves,
}

// forTests may be imported by every test beside what its package may import.
var forTests = []string{"runtime/engine/enginetest", "monitors/monitortest"}

// unsafeBelow is the only tree with unsafe code and calls into C libraries.
const unsafeBelow = "bindings/llamacpp/..."

var unsafeImports = []string{"unsafe", "github.com/ebitengine/purego/..."}

// vague are package names that say nothing of what is inside.
var vague = []string{
	"util", "utils", "common", "base", "core", "helper", "helpers", "manager", "managers", "misc", "shared",
}

// match reports whether a package path fits a pattern.
func match(pattern, pkg string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == below || strings.HasPrefix(pkg, below+"/")
	}
	return pkg == pattern
}

// rowOf returns the row of a package, nil if the table forgot it.
func rowOf(pkg string) *row {
	for i := range table {
		if match(table[i].packages, pkg) {
			return &table[i]
		}
	}
	return nil
}

// allows reports whether pkg may import another package of the module.
func (r *row) allows(pkg, imported string, test bool) bool {
	for _, pattern := range r.allowed {
		if pattern == "own" {
			pattern = own(pkg)
		}
		if match(pattern, imported) {
			return true
		}
	}
	if strings.HasPrefix(imported, pkg+"/internal/") {
		return true // the package's own private part
	}
	if !test {
		return false
	}
	for _, pattern := range forTests {
		if match(pattern, imported) {
			return true
		}
	}
	return imported == pkg ||
		match("runtime/...", pkg) && match("monitors/...", imported) || // a real monitor to judge by
		match("runtime/audit", pkg) && match("runtime/policy", imported) || // a real policy
		match("internal/...", pkg) && !match("cmd/...", imported)
}

// own is the pattern for the package's family: "bindings/llamacpp/...".
func own(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/") + "/..."
}
