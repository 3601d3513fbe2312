package style

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// maxFunction is the most lines of a function: it should fit on a screen. A
// test may be a little longer, for it reads from top to bottom.
const (
	maxFunction     = 80
	maxTestFunction = 100
)

// root is the top of the checkout.
const root = "../.."

// eachFile parses every Go file of the project.
func eachFile(t *testing.T, visit func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		files++
		visit(path, set, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files were found; is %s the top of the checkout?", files, root)
	}
}

func TestFunctionsFitOnAScreen(t *testing.T) {
	eachFile(t, func(path string, set *token.FileSet, file *ast.File) {
		most := maxFunction
		if strings.HasSuffix(path, "_test.go") {
			most = maxTestFunction
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > most {
				t.Errorf("%s: %s has %d lines, at most %d", path, f.Name.Name, n, most)
			}
		}
	})
}

func TestExportedNamesAreDocumented(t *testing.T) {
	eachFile(t, func(path string, _ *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") || file.Name.Name == "main" {
			return
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
					t.Errorf("%s: %s has no docstring", path, d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(t, path, d)
			}
		}
	})
}

// exportedReceiver: a method of a type that nobody outside can name needs none.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	expr := d.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	name, ok := expr.(*ast.Ident)
	return !ok || name.IsExported() && d.Name.Name != "String" && d.Name.Name != "Error" && d.Name.Name != "Unwrap"
}

func undocumented(t *testing.T, path string, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				t.Errorf("%s: %s has no docstring", path, s.Name.Name)
			}
		case *ast.ValueSpec:
			// One comment for a block of constants or variables is enough.
			if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				t.Errorf("%s: %s has no docstring", path, s.Names[0].Name)
			}
		}
	}
}

func TestPackagesHaveADocFile(t *testing.T) {
	documented := map[string]bool{}
	eachFile(t, func(path string, _ *token.FileSet, file *ast.File) {
		dir := filepath.Dir(path)
		documented[dir] = documented[dir] || filepath.Base(path) == "doc.go" && file.Doc != nil
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no doc.go with a package comment", dir)
		}
	}
}

// Tests wait for the thing itself, and none is skipped.
func TestTestsNeitherSleepNorSkip(t *testing.T) {
	eachFile(t, func(path string, set *token.FileSet, file *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := f.X.(*ast.Ident)
			sleeps := of != nil && of.Name == "time" && f.Sel.Name == "Sleep"
			skips := f.Sel.Name == "Skip" || f.Sel.Name == "SkipNow" || f.Sel.Name == "Skipf"
			if sleeps || skips {
				t.Errorf("%s: a test must not %s", set.Position(call.Pos()), f.Sel.Name)
			}
			return true
		})
	})
}
