package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	interpreter = regexp.MustCompile(`^(python|pypy|node|ruby|perl|deno|bun)[0-9.]*$`)
	script      = regexp.MustCompile(`\.(py|js|mjs|cjs|ts|rb|pl)$`)
)

// judgeCommand says what is certainly wrong with a streamlet's command, which would
// otherwise show as something else: an interpreter that waits for a program at its
// stdin, or one that ends over and over. What the system will say itself is left to it.
func judgeCommand(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if strings.HasPrefix(args[0], "-") {
		return fmt.Errorf("%q stands where the streamlet's command begins; flags of ankka-flow go before the --", args[0])
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		if there(args[0]) && filepath.Base(args[0]) == args[0] {
			return fmt.Errorf("%s is a file here and no program on PATH; run it with its interpreter, as in -- python3 %s, or by its path, ./%s", args[0], args[0], args[0])
		}
		return nil
	}
	switch {
	case !interpreter.MatchString(filepath.Base(args[0])):
	case len(args) == 1:
		return fmt.Errorf("%s alone would take its stdin for a program; name the streamlet's file: -- %s streamlet.py", args[0], args[0])
	case script.MatchString(args[1]) && !there(args[1]):
		return fmt.Errorf("%s %s: there is no file %s here", args[0], args[1], args[1])
	}
	return nil
}

// there: a name that exists, or that we may not see.
func there(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
