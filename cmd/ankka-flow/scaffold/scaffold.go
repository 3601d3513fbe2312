package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"ankka-flow/sdk/python"
)

//go:embed files/*
var files embed.FS

// templateSuffix ends the names of the files here, so that no tool takes them for its own.
const templateSuffix = ".txt"

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckName says what is wrong with a streamlet's name; nil: nothing. Whoever typed it
// should choose another.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%q is no name of a streamlet: 1 to 63 of a-z, 0-9 and -, with no - at an end", name)
	}
	return nil
}

// Write makes dir, which may be there if it is empty, and writes a new streamlet of
// this name into it. It returns what stands there, the SDK's copy as one entry. An error
// is of the file system, or says that dir is not empty: then nothing was written.
func Write(dir, name string) ([]string, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("looking at %s: %w", dir, err)
	case len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty; name a new folder", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	sources, err := fs.Sub(python.Sources, python.Root)
	if err != nil {
		return nil, fmt.Errorf("reading the SDK: %w", err)
	}
	if err := os.CopyFS(dir, sources); err != nil {
		return nil, fmt.Errorf("writing the SDK: %w", err)
	}
	written, err := writeFiles(dir, strings.NewReplacer("{{name}}", name, "{{class}}", className(name)))
	return append(written, "ankka_flow/"), err
}

// writeFiles writes the templates, filled in.
func writeFiles(dir string, fill *strings.Replacer) (written []string, err error) {
	templates, err := files.ReadDir("files")
	if err != nil {
		return nil, fmt.Errorf("reading the templates: %w", err)
	}
	for _, entry := range templates {
		text, err := files.ReadFile("files/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading a template: %w", err)
		}
		name := strings.TrimSuffix(entry.Name(), templateSuffix)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fill.Replace(string(text))), 0o644); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
		written = append(written, name)
	}
	slices.SortFunc(written, func(a, b string) int { return order(a) - order(b) })
	return written, nil
}

// order is how they are named: what to read first, first.
func order(name string) int {
	return slices.Index([]string{"streamlet.py", "test_streamlet.py", "records.jsonl", "pyproject.toml", "Dockerfile"}, name)
}

// className is a name as Python's classes have it; one that begins with a digit gets a
// letter before it.
func className(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	class := b.String()
	if class[0] >= '0' && class[0] <= '9' {
		class = "S" + class
	}
	return class
}
