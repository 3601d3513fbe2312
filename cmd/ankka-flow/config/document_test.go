package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/configuration.md again from the tables")

// The page is made from the tables, so that it cannot say anything else.
func TestDocumentation(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "configuration.md")
	want := page()
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("docs/configuration.md is not what the tables say; write it again: go test ./cmd/ankka-flow/config -rewrite")
	}
}

// The example of the page is a configuration.
func TestExampleOfTheDocumentation(t *testing.T) {
	m := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(intro, -1)
	if len(m) == 0 {
		t.Fatal("no example")
	}
	for _, one := range m {
		text := strings.ReplaceAll(one[1], "/etc/kafka/password", write(t, "password", "x"))
		text = regexp.MustCompile(`.*ssl.truststore.location.*\n`).ReplaceAllString(text, "")
		if _, err := loadFile(t, text, "KAFKA=kafka:9092"); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// No key has two rows, and none that a person may set lacks a name.
func TestTableOfKeys(t *testing.T) {
	seen := map[string]bool{}
	for i := range Keys {
		k := &Keys[i]
		flag := ""
		if k.Flag != "" {
			flag = "--" + k.Flag
		}
		for _, name := range []string{k.Path(), flag, k.Variable()} {
			if name != "" && seen[name] {
				t.Errorf("%s is in the table twice", name)
			}
			seen[name] = true
		}
		if k.Meaning == "" || k.id() == "" {
			t.Errorf("row %d has no meaning or no name", i)
		}
		if k.Default != "" && k.judge(k.Default) != "" {
			t.Errorf("%s: its default %q: %s", k.id(), k.Default, k.judge(k.Default))
		}
	}
}

const intro = `# Configuration

<!-- Made from the tables in cmd/ankka-flow/config: go test ./cmd/ankka-flow/config -rewrite -->

ankka-flow needs none: without any it names everything after the streamlet and uses an embedded broker. What is set
comes from flags, the environment and one file. **Flags win over the environment, the environment over the file, the
file over the defaults**, key by key: ` + "`--topic in=x`" + ` changes one port of a file. (A flag replaces its variable, though, all of
its lines.)

    ankka-flow run -c flow.yaml --print-config     # the result, where each value is from, secrets hidden
    ankka-flow check --offline -c flow.yaml        # what is wrong with it, all at once; exit code 2

` + "```yaml" + `
# flow.yaml
bootstrap.servers: ${KAFKA}
pipeline: shop
config:
  review-threshold: 150
inlets:
  in: {topic: orders}
outlets:
  valid: {topic: valid-orders}
connection-config:
  security.protocol: SASL_SSL
  sasl.mechanism: SCRAM-SHA-512
  sasl.username: shop
  sasl.password-file: /etc/kafka/password
  ssl.truststore.location: ca.pem
` + "```" + `

## The file

- It is named by ` + "`-c`" + `, or ` + "`FLOW_CONFIG`" + `; otherwise ` + "`FLOW_CONFIG_DIR`" + ` is a folder with ` + "`flow.yaml`, `flow.yml` or `flow.json`" + `. HOCON is not read.
- Keys may stand below a root key ` + "`flow`" + `. A dot in a key and a level of nesting are the same: ` + "`batch.max-records: 5`" + ` is ` + "`batch: {max-records: 5}`" + `.
- An unknown key, one given twice, a value of the wrong type: each is an error with its line, and all are said at once. So is an unknown
  ` + "`FLOW_...`" + ` variable (but those that Kubernetes makes for a Service).
- ` + "`${NAME}`" + ` is a variable of the environment, and an error where that is unset; ` + "`${NAME:-default}`" + ` has a text for an unset or empty one;
  ` + "`$$`" + ` is a ` + "`$`" + `. What a variable holds is taken as it is, never as YAML. The streamlet does not get the variables that the file names (but
  PATH, HOME and the like).
- ` + "`KEY-file`" + `, for any key with a text, takes the text from a file, without its last newline: ` + "`sasl.password-file: /etc/kafka/password`" + `. For a
  parameter of the streamlet, whose own name may end so, it is ` + "`config: {PARAMETER: {file: ...}}`" + `.
- Paths in the file are relative to its folder.
- With a configuration file the embedded broker must be asked for: ` + "`--embedded`" + `.
- One supervisor speaks to one cluster. ` + "`bootstrap.servers` and `connection-config`" + ` may stand at a port, but must come to the same for all of them;
  the same holds for ` + "`producer-config`" + `.

## Secrets

Passwords, keys and parameters that are secret are in no log, error, status, trace or ` + "`--print-config`" + `, and not in the environment of the
streamlet: a parameter is hidden when the environment or a file of its own brought it, or when its name says so (password, secret, token and
the like). User and password in front of an address, as in ` + "`postgres://user:password@host`" + `, are hidden too. Bring a secret in by
` + "`${NAME}`, by a `-file`" + ` key, or by the variable ` + "`FLOW_PARAM`" + `: what stands on the command line, anybody on the machine can read who may
list processes, the streamlet too.

## Keys

A duration is a number and a unit: ` + "`500ms`, `30s`, `5m`, `1h`" + `. A size is bytes, or a number and a unit: ` + "`64KiB`, `1 MiB`, `10MB`" + `.
Every flag has its variable. A flag or variable that takes NAME=VALUE may be given several times, in a variable one a line.

`

// page is docs/configuration.md.
func page() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("| in the file | flag | variable | type | default | meaning |\n|---|---|---|---|---|---|\n")
	for i := range Keys {
		k := &Keys[i]
		name := code(k.Path())
		flag := ""
		if k.Flag != "" {
			flag = code("--" + k.Flag)
			if k.Short != "" {
				flag = code("-"+k.Short) + ", " + flag
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, flag, code(k.Variable()), typeOf(k), code(k.Default), cell(k.Meaning))
	}
	b.WriteString(`
Besides, ` + "`connection-config`, `consumer-config` and `producer-config`" + ` have names of the Java client (below), at the top for all ports, or
at a port: ` + "`inlets.<inlet>.consumer-config`" + `. What stands at the port wins.

## Names of the Java client

Each name is honoured, or refused with the reason; none is ignored. New groups begin at the earliest record and transactions are read
` + "`read_committed`" + `, which is not Java's default. Keys and certificates are PEM.

| name | where | type | meaning |
|---|---|---|---|
`)
	for _, j := range JavaKeys {
		if j.In != 0 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(j.Name), j.In.sections(), typeOf(&Key{Kind: j.Kind, Choices: j.Choices, Unit: unit(j)}), cell(j.Meaning))
		}
	}
	b.WriteString("\nRefused:\n\n| name | reason |\n|---|---|\n")
	for i := 0; i < len(JavaKeys); {
		j := JavaKeys[i]
		var names []string
		for ; i < len(JavaKeys) && JavaKeys[i].Meaning == j.Meaning; i++ {
			names = append(names, code(JavaKeys[i].Name))
		}
		if j.In == 0 {
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names, ", "), cell(j.Meaning))
		}
	}
	return b.String()
}

func unit(j JavaKey) string {
	if j.Kind == Duration {
		return "milliseconds"
	}
	return ""
}

func typeOf(k *Key) string {
	switch {
	case k.Kind == Choice:
		var all []string
		for _, c := range k.Choices {
			if c == "" {
				c = "(empty)"
			}
			all = append(all, c)
		}
		return strings.Join(all, ", ")
	case k.Unit == "milliseconds":
		return "milliseconds"
	}
	return k.Kind.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}
