package sequence

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// The package decides and does nothing else: what could touch the world is not
// even imported.
func TestPure(t *testing.T) {
	allowed := map[string]bool{"fmt": true, "slices": true, "time": true, "ankka-flow/delivery": true}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := f.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range parsed.Imports {
			if path := strings.Trim(imp.Path.Value, `"`); !allowed[path] {
				t.Errorf("%s imports %s", name, path)
			}
		}
		for _, word := range []string{"time.Now", "time.Since", "time.After", "time.NewTimer", "go func", "fmt.Print"} {
			if strings.Contains(string(src), word) {
				t.Errorf("%s uses %s", name, word)
			}
		}
	}
}
