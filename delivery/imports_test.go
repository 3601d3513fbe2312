package delivery

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pureDirs are the packages that decide and do nothing else, and for each the
// files of it that may touch io.
var pureDirs = map[string][]string{
	".":           nil,
	"record":      nil,
	"kafka/group": nil,
	"kafka/names": nil,
	"../wire":     {"reader.go"},
}

var impure = []string{"context", "sync", "io", "os", "net", "log", "math/rand", "crypto/rand", "runtime", "os/exec", "syscall"}

var pureTime = []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}

// TestPureImports: the pure packages wait for nothing, do no IO and tell no
// time.
func TestPureImports(t *testing.T) {
	for dir, mayUseIO := range pureDirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err == nil && len(files) == 0 {
			t.Errorf("%s has no Go files", dir)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				for _, problem := range impurities(t, file, nil, slices.Contains(mayUseIO, filepath.Base(file))) {
					t.Errorf("%s: %s", file, problem)
				}
			}
		}
	}
}

func impurities(t *testing.T, file string, source any, mayUseIO bool) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.ContainsFunc(impure, func(i string) bool { return path == i || strings.HasPrefix(path, i+"/") })
		if bad && !(path == "io" && mayUseIO) {
			problems = append(problems, "imports "+path)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			problems = append(problems, "starts a goroutine")
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && !slices.Contains(pureTime, sel.Sel.Name) {
			problems = append(problems, "uses time."+sel.Sel.Name)
		}
		return true
	})
	return problems
}

// TestPureImportsSees shows that the rule catches what it is for.
func TestPureImportsSees(t *testing.T) {
	source := `package x
import ("time"; "sync"; "net/http"; "io"; "math/rand/v2")
func f() { go f(); _ = time.Now(); _ = time.Second }`
	got := impurities(t, "x.go", source, false)
	if len(got) != 6 {
		t.Errorf("6 impurities, found %d: %q", len(got), got)
	}
	if got := impurities(t, "x.go", source, true); len(got) != 5 {
		t.Errorf("5 impurities where io is allowed, found %d: %q", len(got), got)
	}
}
