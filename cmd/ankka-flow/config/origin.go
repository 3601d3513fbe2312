package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// rank orders the sources: a higher one wins.
type rank uint8

const (
	fromDefault rank = iota
	fromFile
	fromEnvironment
	fromFlag
)

// origin is where a value was given.
type origin struct {
	rank rank
	// name is the flag with its hyphens, the variable, or the file's path.
	name string
	// line in the file, from 1.
	line int
	// variables are those that ${...} brought in, file is what a -file key read.
	variables []string
	file      string
}

// place is where a person goes to change it: "flow.yaml:3", "FLOW_BROKERS",
// "--brokers".
func (o origin) place() string {
	if o.rank == fromFile {
		return fmt.Sprintf("%s:%d", o.name, o.line)
	}
	return o.name
}

// String is the place and what the value was made from, for --print-config.
func (o origin) String() string {
	if o.rank == fromDefault {
		return "default"
	}
	text := o.place()
	for _, v := range o.variables {
		text += fmt.Sprintf(", with ${%s}", v)
	}
	if o.file != "" {
		text += ", from " + o.file
	}
	return text
}

// value is one setting as text.
type value struct {
	text string
	// shown is what may stand in a message or in --print-config: what was
	// written, before ${...} was replaced, or ***.
	shown  string
	origin origin
}

// brought reports whether the text came from the environment or a file of its own:
// then it may be a secret, whatever its key.
func (v value) brought() bool {
	return v.origin.rank == fromEnvironment || len(v.origin.variables) > 0 || v.origin.file != ""
}

// Problem is one thing that is wrong, where, and what to do.
type Problem struct {
	// Where is a place, as "flow.yaml:3", "FLOW_BROKERS" or "--topic".
	Where string
	// Text says what is wrong and what is right. It holds no secret's value.
	Text string

	rank rank
	line int
}

// Error implements error.
func (p Problem) Error() string { return p.Where + p.Text }

// Problems are all that were found, those of flags first, then the environment's,
// then the file's by line.
type Problems []Problem

// Error implements error: one line each.
func (p Problems) Error() string {
	var b strings.Builder
	for i, one := range p {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(one.Error())
	}
	return b.String()
}

// sorted puts them in order and keeps one of equal ones.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(-cmp.Compare(a.rank, b.rank), cmp.Compare(a.line, b.line))
	})
	return slices.CompactFunc(p, func(a, b Problem) bool { return a == b })
}

// at adds a problem at a place; the text goes on behind "PLACE: ".
func (p *Problems) at(o origin, format string, args ...any) {
	*p = append(*p, Problem{Where: o.place(), Text: ": " + withoutLogins(fmt.Sprintf(format, args...)), rank: o.rank, line: o.line})
}
