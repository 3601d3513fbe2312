package config

import (
	"fmt"
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// interpolate replaces ${NAME}, ${NAME:-default} and $$ in a text. A $ before
// anything else stays, for passwords have them. It returns the names it looked up,
// and the sentences about what is wrong; those hold no value.
func interpolate(text string, lookup func(string) (string, bool)) (out string, names, problems []string) {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i == len(text)-1 {
			b.WriteString(text)
			return b.String(), names, problems
		}
		b.WriteString(text[:i])
		text = text[i+1:]
		switch text[0] {
		case '$':
			b.WriteByte('$')
			text = text[1:]
		case '{':
			end := strings.IndexByte(text, '}')
			if end < 0 {
				return b.String(), names, append(problems, "${ has no } behind it; write $$ for a plain $")
			}
			value, name, problem := replacement(text[1:end], lookup)
			if name != "" {
				names = append(names, name)
			}
			if problem != "" {
				problems = append(problems, problem)
			}
			b.WriteString(value)
			text = text[end+1:]
		default:
			b.WriteByte('$')
		}
	}
}

// replacement is what stands for the inside of ${...}. As in a shell, :- also
// replaces an empty value.
func replacement(inside string, lookup func(string) (string, bool)) (value, name, problem string) {
	name, otherwise, hasDefault := strings.Cut(inside, ":-")
	if !variableName.MatchString(name) {
		hint := "write ${NAME} or ${NAME:-default}, or $$ for a plain $"
		if optional, ok := strings.CutPrefix(name, "?"); ok && variableName.MatchString(optional) {
			hint = fmt.Sprintf("write ${%s:-} where it may be unset", optional)
		}
		return "", "", "${...} has no variable's name in it; " + hint
	}
	value, set := lookup(name)
	switch {
	case hasDefault && value == "":
		return otherwise, name, ""
	case !set:
		return "", name, fmt.Sprintf("the environment has no variable %s; set it, or write ${%s:-default}", name, name)
	}
	return value, name, ""
}
