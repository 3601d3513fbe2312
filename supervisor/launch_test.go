package supervisor

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// write puts a program into the test's own directory.
func write(t *testing.T, name, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// foreignELF is the head of a program for a machine that this is not.
func foreignELF() string {
	h := make([]byte, 64)
	copy(h, "\x7fELF\x02\x01\x01")
	machine := uint16(183) // AArch64
	if runtime.GOARCH == "arm64" {
		machine = 62
	}
	binary.LittleEndian.PutUint16(h[16:], 2)
	binary.LittleEndian.PutUint16(h[18:], machine)
	binary.LittleEndian.PutUint32(h[20:], 1)
	binary.LittleEndian.PutUint16(h[52:], 64)
	return string(h)
}

func TestCase24_WhatCannotBeLaunched(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	python3, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	onlyPython3 := t.TempDir()
	if err := os.Symlink(python3, filepath.Join(onlyPython3, "python3")); err != nil {
		t.Fatal(err)
	}
	withScript := filepath.Dir(write(t, "streamlet.py", "print()\n", 0o644))
	absent := filepath.Join(t.TempDir(), "absent")
	for _, c := range []struct {
		name string
		cmd  Command
		code int
		says []string // parts of the message
	}{
		{"nothing", Command{}, 127, []string{"no program was named", "--"}},
		{"an empty name", Command{Args: []string{""}}, 127, []string{"no program was named"}},
		{"no such program on PATH", Command{Args: []string{"no-such-program"}}, 127, []string{"no-such-program", "PATH"}},
		{"no such path", Command{Args: []string{absent}}, 127, []string{absent, "no such file"}},
		{"a file taken for a directory", Command{Args: []string{python3 + "/x"}}, 127, []string{"no such file"}},
		{"python where there is only python3", Command{Args: []string{"python"}, Env: []string{"PATH=" + onlyPython3}}, 127, []string{"python3 is there"}},
		{"python where there is no python3 either", Command{Args: []string{"python"}, Env: []string{"PATH=" + withScript}}, 127, []string{"install it"}},
		{"a script in the working directory", Command{Args: []string{"streamlet.py"}, Dir: withScript}, 127, []string{"python3 ./streamlet.py"}},
		{"no execute permission", Command{Args: []string{write(t, "s.py", "print()\n", 0o640)}}, 126, []string{"no execute permission", "-rw-r-----", "chmod +x"}},
		{"a directory", Command{Args: []string{withScript}}, 126, []string{"directory"}},
		{"another machine's program", Command{Args: []string{write(t, "foreign", foreignELF(), 0o755)}}, 126, []string{"built for", runtime.GOARCH}},
		{"a Windows program", Command{Args: []string{write(t, "w.exe", "MZ\x90\x00", 0o755)}}, 126, []string{"Windows"}},
		{"no program at all", Command{Args: []string{write(t, "text", "print()\n", 0o755)}}, 126, []string{"#!"}},
		{"an empty file", Command{Args: []string{write(t, "empty", "", 0o755)}}, 126, []string{"empty"}},
		{"a script with CRLF", Command{Args: []string{write(t, "crlf", "#!/bin/sh\r\nexit 0\r\n", 0o755)}}, 126, []string{"CRLF", "sed -i"}},
		{"a script with CRLF and env", Command{Args: []string{write(t, "crlf", "#!/usr/bin/env python3\r\n", 0o755)}}, 126, []string{"CRLF", `python3\r`}},
		{"a script without its interpreter", Command{Args: []string{write(t, "s", "#!/no/such/python -u\n", 0o755)}}, 126, []string{"interpreter /no/such/python does not exist"}},
		{"no such working directory", Command{Args: []string{"true"}, Dir: absent}, 126, []string{"working directory", absent}},
		{"arguments longer than the system takes", Command{Args: []string{"true", strings.Repeat("x", 16<<20)}}, 126, []string{"argument list too long"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cmd.Env == nil {
				c.cmd.Env = os.Environ()
			}
			p, err := Start(c.cmd, Options{})
			var launch *LaunchError
			if !errors.As(err, &launch) {
				t.Fatalf("got %v %v, want a LaunchError", p, err)
			}
			if launch.Code != c.code {
				t.Errorf("code %d, want %d (%v)", launch.Code, c.code, err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is not one line", err)
			}
		})
	}
}

func TestCase24_DeletedBetweenRestarts(t *testing.T) {
	path := write(t, "s", "#!/bin/sh\nexit 5\n", 0o755)
	cmd := Command{Args: []string{path}, Env: os.Environ()}
	if got := launch(t, Options{}, cmd).ends(); got.Code != 5 {
		t.Fatalf("got %v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err := Start(cmd, Options{})
	var launch *LaunchError
	if !errors.As(err, &launch) || launch.Code != 127 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestALaterDirectoryOfPATHHasABetterOne(t *testing.T) {
	bad := filepath.Dir(write(t, "prog", "not executable", 0o644))
	good := filepath.Dir(write(t, "prog", "#!/bin/sh\nexit 6\n", 0o755))
	env := []string{"PATH=" + bad + ":" + good}
	if got := launch(t, Options{}, Command{Args: []string{"prog"}, Env: env}).ends(); got.Code != 6 {
		t.Errorf("got %v", got)
	}
}

func TestARelativePathIsSeenFromTheWorkingDirectory(t *testing.T) {
	dir := filepath.Dir(write(t, "prog", "#!/bin/sh\nexit 6\n", 0o755))
	if got := launch(t, Options{}, Command{Args: []string{"./prog"}, Dir: dir, Env: os.Environ()}).ends(); got.Code != 6 {
		t.Errorf("got %v", got)
	}
}
