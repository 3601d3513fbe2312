package supervisor

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// LaunchError says why a program could not be launched and what to do about it. It is for
// the person at the terminal. At the first launch the supervisor exits with Code; at a
// later one (somebody is replacing the file) it waits and tries again.
type LaunchError struct {
	Path string // what was looked for: the path, or the name where PATH has none
	Code int    // the shell's: 127 where there is no such program, otherwise 126
	Why  string // one sentence without a full stop
	Hint string // what to do, "" where nothing better than Why can be said
	Err  error  // the system's error, nil where we found out before asking it
}

// Error is one line: the path, why, and what to do.
func (e *LaunchError) Error() string {
	s := fmt.Sprintf("launching %s: %s", e.Path, e.Why)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Unwrap gives the system's error, so that errors.Is finds fs.ErrNotExist and its like.
func (e *LaunchError) Unwrap() error { return e.Err }

// resolve finds the program of cmd, as a shell does: a name with a slash is a path from the
// child's working directory, any other is looked up in the child's PATH.
func resolve(cmd Command) (string, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return "", &LaunchError{Path: `""`, Code: 127, Why: "no program was named", Hint: "write it after --, as in: ankka-flow run -- python3 streamlet.py"}
	}
	if cmd.Dir != "" {
		if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
			return "", &LaunchError{Path: cmd.Args[0], Code: 126, Why: fmt.Sprintf("its working directory %s is not a directory that can be entered", cmd.Dir), Err: err}
		}
	}
	name := cmd.Args[0]
	if strings.ContainsRune(name, '/') {
		path := inDir(cmd.Dir, name)
		return path, explain(path, nil)
	}
	return lookPath(cmd, name)
}

// lookPath returns the first executable of that name. One that lies in PATH and cannot be
// executed is reported only where no later directory has a better one.
func lookPath(cmd Command, name string) (string, error) {
	var found error
	for _, dir := range filepath.SplitList(lookupEnv(cmd.Env, "PATH")) {
		path := filepath.Join(inDir(cmd.Dir, dir), name)
		err := explain(path, nil)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && found == nil {
			found = err
		}
	}
	if found != nil {
		return "", found
	}
	e := &LaunchError{Path: name, Code: 127, Why: "no such program on PATH", Err: fs.ErrNotExist}
	e.Hint = missingHint(cmd, name)
	return "", e
}

func missingHint(cmd Command, name string) string {
	if name == "python" {
		if _, err := lookPath(cmd, "python3"); err == nil {
			return "python3 is there: use python3 instead of python"
		}
	}
	if info, err := os.Stat(inDir(cmd.Dir, name)); err == nil && info.Mode().IsRegular() {
		return fmt.Sprintf("a file of that name is in the working directory: write %s", asCommand("./"+name))
	}
	return "install it, or give its path"
}

// asCommand is how a file in the working directory is run.
func asCommand(path string) string {
	if strings.HasSuffix(path, ".py") {
		return "python3 " + path
	}
	return path
}

// explain says what is wrong with the program at path: nil where nothing is to be seen.
// refused is the system's error, or nil before it was asked.
func explain(path string, refused error) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &LaunchError{Path: path, Code: 127, Why: "no such file", Hint: "check the path and the working directory", Err: errors.Join(fs.ErrNotExist, refused)}
	case err != nil:
		return &LaunchError{Path: path, Code: 126, Why: "it cannot be looked at: " + err.Error(), Err: err}
	case info.IsDir():
		return &LaunchError{Path: path, Code: 126, Why: "it is a directory", Hint: "name the program in it", Err: refused}
	case info.Mode()&0o111 == 0:
		return &LaunchError{Path: path, Code: 126, Why: fmt.Sprintf("it has no execute permission (mode %v)", info.Mode()), Hint: executableHint(path), Err: refused}
	}
	head := readHead(path)
	if line, script := shebang(head); script && strings.HasSuffix(line, "\r") {
		// Looked for before the launch: "#!/usr/bin/env python3\r" is launched without an
		// error, and the complaint would be env's.
		return &LaunchError{Path: path, Code: 126, Why: fmt.Sprintf("its first line ends in a carriage return (CRLF), so its interpreter is looked for as %q", line),
			Hint: "save it with LF line ends: sed -i 's/\\r$//' " + path, Err: refused}
	}
	if refused == nil {
		return nil
	}
	return explainRefusal(path, info.Mode(), head, refused)
}

func executableHint(path string) string {
	if strings.HasSuffix(path, ".py") {
		return fmt.Sprintf("run python3 %s, or chmod +x it", path)
	}
	return "chmod +x it, or run it with its interpreter"
}

// explainRefusal: the file is there and has an execute bit, and the system refused it.
func explainRefusal(path string, mode fs.FileMode, head []byte, refused error) error {
	e := &LaunchError{Path: path, Code: 126, Err: refused}
	line, script := shebang(head)
	interpreter, _, _ := strings.Cut(line, " ")
	switch {
	case errors.Is(refused, fs.ErrNotExist) && script:
		e.Why = fmt.Sprintf("its interpreter %s does not exist", interpreter)
		e.Hint = "correct its first line, or run it with its interpreter"
	case errors.Is(refused, fs.ErrNotExist):
		e.Why = "the loader that it was linked for does not exist here"
		e.Hint = "it was probably built for another C library (glibc or musl)"
	case errors.Is(refused, syscall.ENOEXEC):
		e.Why, e.Hint = explainFormat(path, head)
	case errors.Is(refused, fs.ErrPermission):
		e.Why = fmt.Sprintf("the system does not permit it (mode %v)", mode)
		e.Hint = "check the owner, the directories above it, and whether its file system is mounted noexec"
	default:
		e.Why = refused.Error()
	}
	return e
}

func readHead(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.ReadAt(head, 0)
	return head[:n]
}

// shebang is what the first line names: the interpreter and its argument.
func shebang(head []byte) (line string, ok bool) {
	rest, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return "", false
	}
	first, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(bytes.TrimLeft(first, " \t")), true
}

// explainFormat says what kind of file it is that the system cannot execute.
func explainFormat(path string, head []byte) (why, hint string) {
	switch {
	case len(head) == 0:
		return "it is empty", "check how it was built or copied"
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		machine := "another kind of machine"
		if f, err := elf.Open(path); err == nil {
			machine = strings.TrimPrefix(f.Machine.String(), "EM_")
			f.Close()
		}
		return fmt.Sprintf("it was built for %s, this machine is %s/%s", machine, runtime.GOOS, runtime.GOARCH), "build or install it for this machine"
	case bytes.HasPrefix(head, []byte("MZ")):
		return "it is a Windows program", "build or install it for this machine"
	case bytes.HasPrefix(head, []byte("\xcf\xfa\xed\xfe")), bytes.HasPrefix(head, []byte("\xca\xfe\xba\xbe")):
		return "it is a macOS program", "build or install it for this machine"
	}
	return "it is no program that this system knows, and no script with a #! line", "run it with its interpreter, or give it a first line such as #!/usr/bin/env python3"
}

// inDir is path as the child sees it: from dir, its working directory.
func inDir(dir, path string) string {
	if path == "" {
		path = "."
	}
	if filepath.IsAbs(path) {
		return path
	}
	if abs, err := filepath.Abs(filepath.Join(dir, path)); err == nil {
		return abs
	}
	return filepath.Join(dir, path)
}

// lookupEnv is the first value of name, which is what the C library's getenv finds.
func lookupEnv(env []string, name string) string {
	for _, entry := range env {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			return v
		}
	}
	return ""
}
