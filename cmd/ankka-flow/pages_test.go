package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are what a stranger reads first.
var pages = []string{"README.md", "CONTRIBUTING.md", "sdk/python/README.md", "wire/PROTOCOL.md", "docs/terminal.md", "docs/container.md", "docs/conformance.md", "conformance/REFERENCE.md"}

// What the pages name is there: files and folders, targets of make, variables.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	source, paths := everyFile(t)
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	quoted := regexp.MustCompile("`([\\w./-]+)`")
	target := regexp.MustCompile("(?m)(?:`|^    )make ([a-z]+)")
	variable := regexp.MustCompile(`\bFLOW_[A-Z_]+\b`)
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			checked++
			if path := filepath.Join(repository, filepath.Dir(page), string(m[1])); !exists(path) {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			}
		}
		for _, m := range quoted.FindAllSubmatch(text, -1) {
			name := strings.TrimPrefix(string(m[1]), "./")
			first, _, isPath := strings.Cut(strings.TrimSuffix(name, "/"), "/")
			if !isPath && !strings.HasSuffix(name, "/") || first == "" || first == "dev" || first == "application" || first == ".ankka-flow" {
				continue // a word, a path of the system or of a server, or what a run makes
			}
			checked++
			if folder, file := filepath.Split(name); strings.HasPrefix(file, "NN_") {
				name = folder // the name of a file to be made
			}
			if name = strings.TrimSuffix(name, "/"); !paths[name] && name != "ankka-flow" {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
		for _, m := range target.FindAllSubmatch(text, -1) {
			checked++
			if !strings.Contains(string(makefile), "\n"+string(m[1])+":") {
				t.Errorf("%s names `make %s`, which the Makefile does not have", page, m[1])
			}
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			checked++
			if !strings.Contains(source, `"`+name+`"`) {
				t.Errorf("%s names %s, which no source does", page, name)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d names on the pages: does the test still find them?", checked)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// everyFile is the source of the program and every path of the repository, also
// without its leading folders: a page names a file from where its reader is.
func everyFile(t *testing.T) (source string, paths map[string]bool) {
	t.Helper()
	paths = map[string]bool{}
	var all strings.Builder
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(filepath.Base(name), ".") && name != "." {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		for rest, ok := name, true; ok; _, rest, ok = strings.Cut(rest, "/") {
			paths[rest] = true
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String(), paths
}
