package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestImports: the package decides and does nothing. Only reader.go does IO, on
// what it is given; of time there is only Duration and its units.
func TestImports(t *testing.T) {
	forbidden := map[string]bool{"context": true, "sync": true, "io": true, "os": true, "net": true, "log": true, "log/slog": true, "math/rand": true, "math/rand/v2": true, "os/exec": true}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			ours := strings.HasPrefix(path, "ankka-flow/") && path != "ankka-flow/delivery/record"
			if ours || forbidden[path] && !(path == "io" && name == "reader.go") {
				t.Errorf("%s imports %s", name, path)
			}
		}
		checkDoesNothing(t, name, file)
	}
}

func checkDoesNothing(t *testing.T, name string, file *ast.File) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%s starts a goroutine", name)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && n.Sel.Name != "Duration" && n.Sel.Name != "Millisecond" {
				t.Errorf("%s uses time.%s", name, n.Sel.Name)
			}
		}
		return true
	})
}
