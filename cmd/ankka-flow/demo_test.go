package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// demoArgs are the arguments of `make demo`, taken from the Makefile, so that
// what a newcomer runs is what is tested.
func demoArgs(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, command, ok := strings.Cut(string(makefile), "./ankka-flow run ")
	if !ok {
		t.Fatal("the Makefile's demo does not run ./ankka-flow run")
	}
	command, _, _ = strings.Cut(command, ";")
	return append([]string{"--log-format", "text", "run"}, strings.Fields(command)...)
}

// readmeLines are the lines of the demo that the README shows; numbers stand for
// any number.
func readmeLines(t *testing.T) []string {
	t.Helper()
	var lines []string
	for line := range strings.SplitSeq(readme(t), "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "INF ") {
			lines = append(lines, withoutNumbers(line))
		}
	}
	return lines
}

func withoutNumbers(line string) string {
	return regexp.MustCompile(`\d+`).ReplaceAllString(line, "N")
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The first five minutes: what the README shows is what one sees; Ctrl-C ends
// it with 0; started again it goes on where it was.
func TestDemoIsWhatTheReadmeShows(t *testing.T) {
	t.Parallel()
	dir := exampleDir(t)
	demo := startProgram(t, programOptions{dir: dir}, demoArgs(t)...)
	demo.await(`committed +50 in, 50 out, 0 behind`)
	var seen []string
	for line := range strings.SplitSeq(demo.stderr(), "\n") {
		seen = append(seen, withoutNumbers(line))
	}
	if shown := readmeLines(t); !slices.Equal(seen, shown) {
		t.Errorf("the README shows\n%s\none sees\n%s", strings.Join(shown, "\n"), strings.Join(seen, "\n"))
	}

	code, stdout, _ := runProgram(t, programOptions{dir: dir}, "consume", "cart-router.review", "-n", "1")
	if code != 0 || !strings.Contains(stdout, `"value":"{\"total\":`) {
		t.Fatalf("consume ended with %d and printed %q", code, stdout)
	}
	demo.interrupt()
	if code := demo.wait(); code != 0 {
		t.Fatalf("Ctrl-C ended the demo with %d, want 0", code)
	}

	again := startProgram(t, programOptions{dir: dir}, demoArgs(t)...)
	again.await(`ready +status http://127.0.0.1:\d+, watching examples`)
	code, _, stderr := runProgram(t, programOptions{dir: dir, stdin: `{"key":"c9","value":{"total":7}}` + "\n"}, "produce", "cart-router.in")
	if code != 0 || !strings.Contains(stderr, "1 record written to cart-router.in") {
		t.Fatalf("produce ended with %d: %s", code, stderr)
	}
	again.await(`committed +1 in, 1 out, 0 behind`)
	again.interrupt()
	if code := again.wait(); code != 0 {
		t.Fatalf("Ctrl-C ended the second demo with %d, want 0", code)
	}
	if strings.Contains(again.stderr(), "records of") {
		t.Error("the input was written a second time")
	}
}

// A saved streamlet is reloaded; one that is broken waits for the next save.
func TestDemoReloads(t *testing.T) {
	t.Parallel()
	dir := exampleDir(t)
	script := filepath.Join(dir, "examples", "cart_router.py")
	source, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	save := func(text string) {
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	demo := startProgram(t, programOptions{dir: dir}, demoArgs(t)...)
	first := demo.await(`process +pid (\d+):`)[1]
	demo.await(`committed +50 in, 50 out, 0 behind`)

	at := demo.count()
	save(string(source) + "\n# saved\n")
	demo.awaitFrom(at, `reload +cart_router.py changed`)
	if second := demo.awaitFrom(at, `process +pid (\d+):`)[1]; second == first {
		t.Fatalf("the process is %s before and after the reload", first)
	}
	demo.awaitFrom(at, `ready +conversation`)

	at = demo.count()
	save("def broken(:\n")
	demo.awaitFrom(at, `SyntaxError`)
	demo.awaitFrom(at, `waiting +for the next save`)

	at = demo.count()
	save(string(source))
	demo.awaitFrom(at, `ready +conversation`)
	demo.interrupt()
	if code := demo.wait(); code != 0 {
		t.Fatalf("Ctrl-C ended it with %d, want 0", code)
	}
}
