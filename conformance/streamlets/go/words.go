package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// record is one that was delivered, or one that is emitted instead. nil is null.
type record struct {
	offset  int64
	key     any
	value   any
	headers []any // of [name, value]
}

// emit is a record for an outlet; without one, the record at hand as it came.
type emit struct {
	outlet string
	record *record
}

// exit is an error that ends the program after the batch's fail. Nothing can stand between
// os.Exit and the end, so nobody may call it in a handler.
type exit int

func (e exit) Error() string { return fmt.Sprintf("the handler exits with %d", int(e)) }

// config is the parameters of a conversation.
type config struct {
	mode   string
	factor int64
}

func newConfig(values map[string]any) config {
	return config{mode: values["mode"].(string), factor: integer(values["factor"])}
}

// integer is a number of any of msgpack's widths.
func integer(v any) int64 {
	if r := reflect.ValueOf(v); r.CanInt() {
		return r.Int()
	}
	return int64(reflect.ValueOf(v).Uint())
}

// records are those of a batch; elements that a later minor adds are left out.
func records(of any) []record {
	var all []record
	for _, each := range of.([]any) {
		fields := each.([]any)
		r := record{offset: integer(fields[0]), key: fields[2], value: fields[3], headers: []any{}}
		for _, header := range fields[4].([]any) {
			r.headers = append(r.headers, header.([]any)[:2])
		}
		all = append(all, r)
	}
	return all
}

// handle is what REFERENCE.md says of the record's word.
func (c config) handle(r record) ([]emit, error) {
	value, _ := r.value.([]byte)
	text := strings.ToValidUTF8(string(value), "\uFFFD")
	unchanged, changed := []emit{{outlet: "out"}}, r
	one := []emit{{"out", &changed}}
	switch c.word(r) {
	case "skip":
		return nil, nil
	case "fan":
		return []emit{{outlet: "out"}, {outlet: "other"}, {outlet: "out"}}, nil
	case "fail":
		return nil, errors.New(text)
	case "exit":
		return nil, exit(3)
	case "rogue-outlet":
		return []emit{{outlet: "nowhere"}}, nil
	case "multiply":
		n, err := strconv.ParseInt(text, 10, 64)
		changed.value = strconv.AppendInt(nil, n*c.factor, 10)
		return one, err
	case "unkeyed":
		changed.key = nil
		return one, nil
	case "header-echo":
		changed.headers = append(changed.headers, []any{[]byte("echo"), []byte("1")})
		return one, nil
	case "make":
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		changed.value, changed.headers = bytes.Repeat([]byte("x"), n), nil
		return one, nil
	case "read":
		read, err := io.ReadAll(os.Stdin)
		changed.value = read
		return one, err
	}
	return unchanged, c.act(r, value, text)
}

// act does what words do that emit the record unchanged.
func (c config) act(r record, value []byte, text string) error {
	word := c.word(r)
	var err error
	switch word {
	case "print":
		_, err = fmt.Println(text)
	case "print-fd":
		_, err = unix.Write(1, append(bytes.Clone(value), '\n'))
	case "print-err":
		_, err = fmt.Fprintln(os.Stderr, text)
	case "run":
		shell := exec.Command("sh", "-c", text)
		shell.Stdin, shell.Stdout, shell.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = shell.Run()
	case "late", "busy":
		for {
			if _, missing := os.Stat(text); missing == nil {
				break
			}
			if word == "late" {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	return err
}

// word says what to do with a record.
func (c config) word(r record) string {
	if c.mode != "key" {
		return c.mode
	}
	key, _ := r.key.([]byte)
	word, _, _ := strings.Cut(string(key), ":")
	return word
}
