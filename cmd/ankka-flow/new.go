package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ankka-flow/cmd/ankka-flow/scaffold"
)

func newNew(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "new DIR",
		Short: "Write a new streamlet in Python, with its test and records to run it with",
		Long: `new makes the folder DIR, whose name is the streamlet's, with streamlet.py, test_streamlet.py,
records.jsonl, pyproject.toml, Dockerfile and a copy of the SDK, and prints the two commands that
test and run it. They need nothing but Python 3.10 or later.`,
		Example: "  ankka-flow new hello",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse("new takes one folder: ankka-flow new DIR")
			}
			return a.scaffold(args[0])
		},
	}
}

func (a *app) scaffold(dir string) error {
	full, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("finding %s: %w", dir, err)
	}
	name := filepath.Base(full)
	if err := scaffold.CheckName(name); err != nil {
		return misuse("new names the streamlet after the folder, but %w", err)
	}
	written, err := scaffold.Write(dir, name)
	if err != nil {
		return misuse("%w", err)
	}
	at := func(file string) string { return quoted(filepath.Join(dir, file)) }
	_, err = fmt.Fprintf(a.stdout, `wrote %s in %s; test it, and run it:

  python3 -m unittest discover -s %s
  %s run --watch --input in=%s -- python3 %s
`, strings.Join(written, ", "), dir, quoted(dir), quoted(os.Args[0]), at("records.jsonl"), at("streamlet.py"))
	return err
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_./+=:@%,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0 && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
