package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ankka-flow/cmd/ankka-flow/scaffold"
	"ankka-flow/sdk/python"
)

// What new writes passes its own test and runs, by the very commands that it prints,
// with no SDK installed and in a folder whose name a shell must be told about.
func TestNew_RunsAsPrinted(t *testing.T) {
	t.Parallel()
	o := programOptions{dir: filepath.Join(t.TempDir(), "my streamlets"), env: []string{"PYTHONPATH=", "FLOW_LOG_FORMAT=text"}}
	if err := os.Mkdir(o.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := runProgram(t, o, "new", "sub/hello-2")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	commands := regexp.MustCompile(`(?m)^  (.+)$`).FindAllStringSubmatch(stdout, -1)
	if len(commands) != 2 {
		t.Fatalf("%d commands in %q", len(commands), stdout)
	}
	for _, name := range []string{"streamlet.py", "test_streamlet.py", "records.jsonl", "pyproject.toml", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join(o.dir, "sub", "hello-2", name))
		if err != nil || strings.Contains(string(text), "{{") || !strings.Contains(stdout, name) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	p := startCommand(t, o, "bash", "-c", commands[0][1])
	p.endsWith(0)
	p.await(`^Ran 1 test`)
	p = startCommand(t, o, "bash", "-c", "exec "+commands[1][1])
	p.await(`committed +3 in, 2 out, 0 behind`)
	p.stopsWell()
}

// What cannot be is refused before anything is written.
func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "full", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"Hello"}, "is no name of a streamlet"},
		{[]string{"hello_world"}, "a-z, 0-9 and -"},
		{[]string{"-x-"}, "--help"},
		{[]string{"x-"}, "no - at an end"},
		{[]string{"full"}, "is not empty"},
		{nil, "ankka-flow new DIR"},
		{[]string{"a", "b"}, "takes one folder"},
	} {
		code, stdout, stderr := runProgram(t, programOptions{dir: dir}, append([]string{"new"}, c.args...)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("new %q: %d, %q, %q; want 2 and %q", c.args, code, stdout, stderr, c.says)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// The copy of the SDK is all of it.
func TestNew_HasTheWholeSDK(t *testing.T) {
	t.Parallel()
	root := os.DirFS(filepath.Join(repository, "sdk", "python", python.Root, "ankka_flow"))
	dir := filepath.Join(t.TempDir(), "x")
	if _, err := scaffold.Write(dir, "x"); err != nil {
		t.Fatal(err)
	}
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == "__pycache__" {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, "ankka_flow", path)); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
