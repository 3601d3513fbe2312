package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/term"

	"ankka-flow/cmd/ankka-flow/recordline"
)

// inputFile is a file of records that was read whole.
type inputFile struct {
	path  string
	lines []*recordline.Line
}

// maxInputProblems is how many wrong lines of a file are shown.
const maxInputProblems = 10

// openInput opens a file to be read. The error says what is wrong in plain
// words.
func openInput(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return nil, fmt.Errorf("%s is a directory, not a file", path)
	}
	return f, nil
}

// isTerminalInput says whether a person types the input.
func isTerminalInput(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// readInput reads a file of record lines, and says what is wrong with it before
// anything is started.
func readInput(path string) (*inputFile, error) {
	f, err := openInput(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &inputFile{path: path}
	var problems []error
	err = eachLine(f, path, false, recordline.Parse, func(l *recordline.Line, err error) bool {
		if err != nil {
			problems = append(problems, err)
		}
		in.lines = append(in.lines, l)
		return len(problems) < maxInputProblems
	})
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	return in, nil
}

// inputLine is a line that was read, or why the reading ended.
type inputLine struct {
	line *recordline.Line
	err  error
}

// readLines reads lines in a goroutine of its own, for one who also listens to
// signals. The goroutine ends with the input, or else with the process: a read
// of a terminal cannot be called off.
func readLines(r io.Reader, file string, raw bool, parse func([]byte) (*recordline.Line, error)) <-chan inputLine {
	lines := make(chan inputLine, 1000)
	go func() {
		defer close(lines)
		err := eachLine(r, file, raw, parse, func(l *recordline.Line, err error) bool {
			lines <- inputLine{l, err}
			return err == nil
		})
		if err != nil {
			lines <- inputLine{err: err}
		}
	}()
	return lines
}

// byteOrderMark begins the files of some editors, and is no part of the text.
var byteOrderMark = []byte("\xef\xbb\xbf")

// eachLine parses every line until visit returns false; raw takes each as it is,
// while otherwise blank ones and a byte order mark are passed over. A line is
// what stands between newlines; after the last one there is none if there is
// nothing. An error names file and line.
func eachLine(r io.Reader, file string, raw bool, parse func([]byte) (*recordline.Line, error), visit func(*recordline.Line, error) bool) error {
	reader := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		text, err := readLine(reader)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading %s, line %d: %w", file, n, readFailure(err))
		}
		isLine := err == nil || len(text) > 0
		text = bytes.TrimSuffix(text, []byte("\n"))
		if !raw {
			if n == 1 {
				text = bytes.TrimPrefix(text, byteOrderMark)
			}
			isLine = len(bytes.TrimSpace(text)) > 0
		}
		if isLine {
			line, parseErr := parse(text)
			if parseErr != nil {
				parseErr = fmt.Errorf("%s:%d: %w", file, n, parseErr)
			}
			if !visit(line, parseErr) {
				return nil
			}
		}
		if err != nil {
			return nil // the end
		}
	}
}

// readFailure is the error without what the operating system calls the file.
func readFailure(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// maxLine is the longest line that is read: the largest record, as base64 and
// with headers.
const maxLine = 16 << 20

// readLine reads a line of any length up to maxLine, with its newline. The slice
// is the caller's and never nil.
func readLine(r *bufio.Reader) ([]byte, error) {
	line := []byte{}
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("it is longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
