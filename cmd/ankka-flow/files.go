package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// namedFiles are the files that a command names: its arguments that are
// regular files, and the program itself where it is given by a path.
func namedFiles(args []string) []string {
	var files []string
	for i, arg := range args {
		if i == 0 && filepath.Base(arg) == arg {
			continue // looked up in PATH: not the user's own
		}
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			files = append(files, arg)
		}
	}
	return files
}

// displayName is what a process's lines carry until its streamlet's name is
// known: the script's, else the program's.
func displayName(args []string) string {
	if files := namedFiles(args); len(files) > 0 {
		return filepath.Base(files[len(files)-1])
	}
	if len(args) > 0 {
		return filepath.Base(args[0])
	}
	return "process"
}

// watched is what --watch looks at.
type watched struct {
	paths []string
	// suffixes are the endings that count, such as .py; nil: every file. A
	// streamlet that writes its output beside its source must not restart
	// itself by it.
	suffixes []string
}

// watchedPaths is --watch-path, every file of it; else, in the folders of the
// files that the command names, every file of their kinds.
func watchedPaths(given, args []string) (watched, error) {
	if len(given) > 0 {
		for _, path := range given {
			if _, err := os.Stat(path); err != nil {
				return watched{}, fmt.Errorf("--watch-path: %w", err)
			}
		}
		return watched{paths: given}, nil
	}
	var w watched
	for _, file := range namedFiles(args) {
		if folder := filepath.Dir(file); !slices.Contains(w.paths, folder) {
			w.paths = append(w.paths, folder)
		}
		if suffix := filepath.Ext(file); !slices.Contains(w.suffixes, suffix) {
			w.suffixes = append(w.suffixes, suffix)
		}
	}
	if len(w.paths) == 0 && len(args) > 0 {
		return watched{}, fmt.Errorf("--watch: the command names no file to watch; name it with --watch-path")
	}
	return w, nil
}

// counts says whether a file of this name is watched.
func (w *watched) counts(name string) bool {
	return w.suffixes == nil || slices.Contains(w.suffixes, filepath.Ext(name))
}
