package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is wrong on the command line or in a file that it names: exit code 2,
// nothing on stdout, every problem on a line that names what, where and what is
// right, before anything is started.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.jsonl"), []byte(`{"value":"x"}`+"\n"+`{"valu":"x"}`+"\nnot json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte(`{"streamlet":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		env  []string
		want [][]string // a line each
	}{
		{"a misspelt command", []string{"rum"}, nil, [][]string{{`"rum"`, `did you mean "run"?`, "--help"}}},
		{"a misspelt flag", []string{"run", "--topik", "in=x", "--", "true"}, nil, [][]string{{"--topik", "did you mean --topic?", "ankka-flow run --help"}}},
		{"a misspelt flag in one word", []string{"run", "--topik=in=x", "--", "true"}, nil, [][]string{{"--topik", "did you mean --topic?"}}},
		{"a flag of another command", []string{"produce", "--until-end", "t"}, nil, [][]string{{"--until-end", "ankka-flow produce --help"}}},
		{"a misspelt flag of no command", []string{"--topik"}, nil, [][]string{{"--topik", "(`ankka-flow --help` lists the flags)"}}},
		{
			"a flag replaces its variable",
			[]string{"run", "--topic", "in=x", "--param", "x", "--", "true"},
			[]string{"FLOW_TOPIC=out=y\nnonsense"},
			[][]string{{"--param", "KEY=VALUE"}},
		},
		{"no command to run", []string{"run"}, nil, [][]string{{"needs the command of a streamlet", "ankka-flow run -- python3 streamlet.py"}}},
		{
			"every problem at once",
			[]string{"run", "--topic", "in=a b", "--param", "x", "--input", "in=none.jsonl", "--descriptor", "none.json", "--", "true"},
			nil,
			[][]string{{"--param", "KEY=VALUE"}, {"--topic in", `"a b"`, "letters, digits"}, {"--input in", "none.jsonl", "no such file"}, {"--descriptor", "none.json", "no such file"}},
		},
		{"a form that is wrong", []string{"run", "--topic", "in", "--", "true"}, nil, [][]string{{"--topic", `"in"`, "PORT=TOPIC"}}},
		{"twice the same port", []string{"run", "--topic", "in=a", "--topic", "in=b", "--", "true"}, nil, [][]string{{"--topic in", "twice"}}},
		{"a bad line of an input", []string{"run", "--input", "in=bad.jsonl", "--", "true"}, nil, [][]string{{"bad.jsonl:2", `"valu"`, "value"}, {"bad.jsonl:3", "not a JSON object"}}},
		{"a bad descriptor file", []string{"run", "--descriptor", "bad.json", "--", "true"}, nil, [][]string{{"--descriptor", "bad.json"}}},
		{"a broker without a port", []string{"run", "-b", "localhost", "--", "true"}, nil, [][]string{{"--brokers", `"localhost"`, "host:port"}}},
		{"two brokers", []string{"run", "-b", "localhost:1", "--embedded", "--", "true"}, nil, [][]string{{"--embedded", "--brokers"}}},
		{"nothing to watch", []string{"run", "--watch", "--", "true"}, nil, [][]string{{"--watch", "--watch-path"}}},
		{"a log level", []string{"--log-level", "loud", "run", "--", "true"}, nil, [][]string{{"--log-level", `"loud"`, "debug, info, warn or error"}}},
		{"a flag in the environment", []string{"run", "--", "true"}, []string{"FLOW_UNTIL_END=maybe"}, [][]string{{"FLOW_UNTIL_END", `"maybe"`, "true or false"}}},
		{"waits in the environment", []string{"run", "--", "true"}, []string{"FLOW_STOP_TIMEOUT=x", "FLOW_WRITE_TIMEOUT=-1s"}, [][]string{{"FLOW_STOP_TIMEOUT", `"x"`, "30s"}, {"FLOW_WRITE_TIMEOUT", `"-1s"`}}},
		{"no topic", []string{"consume"}, nil, [][]string{{"takes one topic", "ankka-flow consume TOPIC"}}},
		{"a topic's name", []string{"consume", "a/b"}, nil, [][]string{{`"a/b"`, `'/'`, "letters, digits"}}},
		{"an offset", []string{"consume", "t", "-o", "yesterday"}, nil, [][]string{{"--offset", `"yesterday"`, "start, end, N, -N or @TIME"}}},
		{"a header", []string{"produce", "t", "-H", "a"}, nil, [][]string{{"--header", `"a"`, "NAME=VALUE"}}},
		{"no broker here", []string{"consume", "t"}, nil, [][]string{{"no broker is named", "--brokers", "ankka-flow run"}}},
		{"where to listen", []string{"broker", "--listen", "nonsense"}, nil, [][]string{{"--listen", `"nonsense"`, "host:port"}}},
		{"partitions", []string{"broker", "--topic", "a:0"}, nil, [][]string{{"--topic a:0", "from 1 to 10000"}}},
		{"a flag behind --", []string{"run", "--", "--watch", "python3", "x.py"}, nil, [][]string{{`"--watch"`, "before the --"}}},
		{"an interpreter alone", []string{"run", "--", "python3"}, nil, [][]string{{"python3 alone", "-- python3 streamlet.py"}}},
		{"a file that is not there", []string{"run", "python3", "none.py"}, nil, [][]string{{"there is no file none.py"}}},
		{"the same for a descriptor", []string{"descriptor", "python3", "none.py"}, nil, [][]string{{"there is no file none.py"}}},
		{"the same for a check", []string{"check", "--", "python3", "none.py"}, nil, [][]string{{"there is no file none.py"}}},
		{"a file without its interpreter", []string{"run", "bad.json"}, nil, [][]string{{"bad.json is a file here", "./bad.json"}}},
		{"a check that launches nothing", []string{"check", "--offline", "--", "true"}, nil, [][]string{{"--offline", `"true"`}}},
		{"a misspelt subcommand", []string{"topics", "lst"}, nil, [][]string{{`"topics lst"`, `did you mean "list"?`}}},
		{"a misspelt short flag", []string{"run", "-x", "--", "true"}, nil, [][]string{{"-x", "ankka-flow run --help"}}},
		{"a flag without its value", []string{"run", "--topic"}, nil, [][]string{{"--topic", "ankka-flow run --help"}}},
		{"a shell that is none", []string{"completion", "fihs"}, nil, [][]string{{`"completion fihs"`, `did you mean "fish"?`}}},
		{"a word too many", []string{"version", "x"}, nil, [][]string{{"takes no arguments", `"x"`}}},
		{"a probe of nothing", []string{"probe"}, nil, [][]string{{"ready or live"}}},
		{"a folder for new", []string{"new"}, nil, [][]string{{"ankka-flow new DIR"}}},
		{"a descriptor to check", []string{"descriptor", "--check", "--", "true"}, nil, [][]string{{"--check", "-o FILE"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startProgram(t, programOptions{dir: dir, env: c.env}, c.args...)
			p.endsWith(2)
			if p.stdout.Len() > 0 {
				t.Errorf("stdout has %q", p.stdout.String())
			}
			lines := strings.Split(p.stderr(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("%d lines, want %d", len(lines), len(c.want))
			}
			for _, words := range c.want {
				p.says(append([]string{"ankka-flow: "}, words...)...)
			}
		})
	}
}

// What only discovery can tell: the process is refused, each problem on one line
// of ours and one of its own, exit code 1, and it is not tried again.
func TestRefusedConfiguration(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	streamlet := []string{"python3", filepath.Join(repository, "examples", "cart_router.py")}
	input := filepath.Join(repository, "examples", "carts.jsonl")
	p := b.runCase(nil, []string{"--topic", "inn=x", "--param", "reveiw-threshold=1", "--input", "valid=" + input}, streamlet)
	p.endsWith(1)
	p.says("ERR refused", "--topic", `"inn"`, "in, review, valid")
	p.says("ERR refused", `"reveiw-threshold"`, `did you mean "review-threshold"?`)
	p.says("ERR refused", "--input", `"valid"`, "it has in")
	for _, problem := range []string{`"inn"`, `"reveiw-threshold"`, `"valid"`} {
		p.says(" | ", "refuses this process: ", problem)
	}
	p.says("pid")

	p = b.runCase(nil, []string{"--param", "review-threshold=many"}, streamlet)
	p.endsWith(1)
	p.says("ERR refused", "review-threshold", `"many"`, "integer")
}

// A port in use, and a topic that does not exist.
func TestPortInUseAndMissingTopic(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := startProgram(t, programOptions{dir: t.TempDir()}, "broker", "--listen", l.Addr().String())
	p.endsWith(1)
	p.says("ankka-flow: ", l.Addr().String(), "in use", "--listen")

	b := newCaseBroker(t)
	p = startProgram(t, programOptions{dir: t.TempDir()}, "consume", "-b", b.address(), "case.inn")
	p.endsWith(1)
	p.says("ankka-flow: ", "case.inn", "no such topic")
}

// stdout carries data only: the lines of consume are JSON, each of them, also
// while stderr is busy; run writes nothing there; logs that are JSON are JSON in
// every line.
func TestCase66_StdoutIsData(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(20)
	b.put(&kgo.Record{Key: []byte("\xff"), Value: nil, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("a\nb")}}})
	run := startProgram(t, programOptions{dir: b.dir, env: caseEnv()},
		append([]string{"run", "-b", b.address(), "--until-end", "--"}, misbehaves(t, "print-before")...)...)
	run.endsWith(0)
	if run.stdout.Len() > 0 {
		t.Errorf("run wrote to stdout: %q", run.stdout.String())
	}
	for _, line := range strings.Split(run.stderr(), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
	for _, args := range [][]string{{"consume", caseOut, "-e"}, {"consume", caseIn, "-e", "--nest", "--log-level", "debug"}} {
		code, stdout, _ := runProgram(t, programOptions{dir: b.dir}, append(args, "-b", b.address())...)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if code != 0 || len(lines) != 21 {
			t.Fatalf("%v: exit code %d and %d lines, want 0 and 21", args, code, len(lines))
		}
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("%v: a line is no JSON: %s", args, line)
			}
		}
	}
	for _, args := range [][]string{{"produce", caseIn}, {"version"}, {"descriptor", "--"}} {
		if args[0] == "descriptor" {
			args = append(args, misbehaves(t, "print-before")...)
		} else if args[0] == "produce" {
			args = append(args, "-b", b.address())
		}
		code, stdout, stderr := runProgram(t, programOptions{dir: b.dir, stdin: `{"value":"x"}` + "\n"}, args...)
		if code != 0 || args[0] == "produce" && stdout != "" || args[0] == "descriptor" && !json.Valid([]byte(stdout)) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// What the help and the README show can be typed: every command, every flag.
func TestHelpIsTrue(t *testing.T) {
	t.Parallel()
	_, help, _ := runProgram(t, programOptions{}, "--help")
	if !strings.Contains(help, "A flag that is given replaces its variable") {
		t.Error("the help does not say what goes before what")
	}
	code, version, _ := runProgram(t, programOptions{env: []string{"FLOW_VERSION=1"}}, "--version")
	if _, want, _ := runProgram(t, programOptions{}, "version"); code != 0 || version != want || want == "" {
		t.Errorf("--version: exit code %d, stdout %q, want %q", code, version, want)
	}
	commands := regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`).FindAllStringSubmatch(help, -1)
	if len(commands) < 6 {
		t.Fatalf("the help lists %d commands:\n%s", len(commands), help)
	}
	for _, m := range commands {
		code, stdout, stderr := runProgram(t, programOptions{}, m[1], "--help")
		if code != 0 || stderr != "" || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%s --help: exit code %d, stderr %q", m[1], code, stderr)
		}
	}
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "sdk/python/README.md", "wire/PROTOCOL.md"} {
		text, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("ankka-flow (run|broker|produce|consume|descriptor)\\b([^\\n`]*)").FindAllStringSubmatch(string(text), -1) {
			_, flags, _ := runProgram(t, programOptions{}, m[1], "--help")
			own, _, _ := strings.Cut(m[2], " -- ")
			for _, flag := range regexp.MustCompile(`(?:^| )(--?[a-z][a-z-]*)`).FindAllStringSubmatch(own, -1) {
				if !regexp.MustCompile(`(?m)(^|[ ,])` + flag[1] + `\b`).MatchString(flags) {
					t.Errorf("%s: `%s`: there is no flag %s", page, m[0], flag[1])
				}
			}
		}
	}
}
