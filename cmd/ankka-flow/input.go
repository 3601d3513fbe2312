package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"ankka-flow/cmd/ankka-flow/recordline"
)

// inputFile is a file of records that was read whole.
type inputFile struct {
	path  string
	lines []*recordline.Line
}

// maxInputProblems is how many wrong lines of a file are shown.
const maxInputProblems = 10

// readInput reads a file of record lines, and says what is wrong with it before
// anything is started.
func readInput(path string) (*inputFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &inputFile{path: path}
	var problems []error
	err = eachLine(f, path, func(l *recordline.Line, err error) bool {
		if err != nil {
			problems = append(problems, err)
		}
		in.lines = append(in.lines, l)
		return len(problems) < maxInputProblems
	}, recordline.Parse)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	return in, nil
}

// eachLine parses every line that is not empty, until visit returns false. An
// error names file and line.
func eachLine(r io.Reader, file string, visit func(*recordline.Line, error) bool, parse func([]byte) (*recordline.Line, error)) error {
	reader := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		text, err := readLine(reader)
		if len(text) > 0 {
			line, parseErr := parse(text)
			if parseErr != nil {
				parseErr = fmt.Errorf("%s:%d: %w", file, n, parseErr)
			}
			if !visit(line, parseErr) {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", file, err)
		}
	}
}

// maxLine is the longest line that is read: the largest record, as base64 and
// with headers.
const maxLine = 16 << 20

// readLine reads a line of any length up to maxLine, without its end. The slice
// is the caller's.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		return line, err
	}
}
