package config

import (
	"fmt"
	"strings"
)

// jaas is what a sasl.jaas.config line says.
type jaas struct {
	scram              bool
	username, password string
}

// parseJAAS reads a line such as
//
//	org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";
//
// by the rules of Java's JaasConfig: words, or texts in quotes with \ before what
// is meant literally. Its problem is a sentence without anything of the line but
// the names of the module and of options.
func parseJAAS(line string) (j jaas, problem string) {
	words, problem := jaasWords(line)
	if problem != "" {
		return j, problem
	}
	if len(words) < 2 {
		return j, `it has the form "...PlainLoginModule required username=\"NAME\" password=\"PASSWORD\";"`
	}
	module := words[0][strings.LastIndexByte(words[0], '.')+1:]
	switch module {
	case "PlainLoginModule":
	case "ScramLoginModule":
		j.scram = true
	default:
		if !strings.HasSuffix(module, "LoginModule") { // whatever it is, it is not shown
			return j, "it begins with a login module, PlainLoginModule or ScramLoginModule"
		}
		return j, fmt.Sprintf("the login module %s is not known; it is PlainLoginModule or ScramLoginModule", module)
	}
	if !contains([]string{"required", "requisite", "sufficient", "optional"}, strings.ToLower(words[1])) {
		return j, "behind the login module stands `required`"
	}
	given := map[string]bool{}
	for _, word := range words[2:] {
		name, text, ok := strings.Cut(word, "=")
		switch {
		case !ok:
			return j, "its options have the form NAME=\"VALUE\""
		case given[name]:
			return j, "it has an option twice"
		case name == "username":
			j.username = text
		case name == "password":
			j.password = text
		default:
			return j, "it has an option besides username and password, which are all that is read"
		}
		given[name] = true
	}
	if !given["username"] || !given["password"] {
		return j, "it needs username and password"
	}
	return j, ""
}

// jaasWords splits a line up to its semicolon.
func jaasWords(line string) (words []string, problem string) {
	var word strings.Builder
	inWord, ended := false, false
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		space := c == ' ' || c == '\t' || c == '\n' || c == '\r'
		switch {
		case ended && !space:
			return nil, "there is something behind its semicolon; one login module is read"
		case space:
			end()
		case c == ';':
			end()
			ended = true
		case c == '"' || c == '\'':
			inWord = true
			i++
			for ; i < len(line) && line[i] != c; i++ {
				if line[i] == '\\' && i+1 < len(line) {
					i++
				}
				word.WriteByte(line[i])
			}
			if i == len(line) {
				return nil, "a quote in it is not closed"
			}
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if !ended {
		return nil, "it ends with a semicolon"
	}
	return words, ""
}
