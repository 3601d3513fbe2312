package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"ankka-flow/cmd/ankka-flow/screen/emulator"
	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
)

// onTerminal runs `run` with a streamlet on a terminal of the test.
func (b *caseBroker) onTerminal(columns int, env, flags, command []string) (*terminal, func() int) {
	b.t.Helper()
	x, slave := openTerminal(b.t, columns, 24)
	args := append([]string{binary, "run", "-b", b.address()}, flags...)
	cmd := startOn(b.t, slave, programOptions{dir: b.dir, env: caseEnv(env...)}, append(append(args, "--"), command...)...)
	_ = slave.Close() // so that the end of the program is the end of what there is to read
	return x, func() int {
		b.t.Helper()
		x.typeIn("\x03")
		done := make(chan int, 1)
		go func() { // ends with the program, which is killed at the test's end
			_ = cmd.Wait()
			x.read.Wait()
			done <- cmd.ProcessState.ExitCode()
		}()
		select {
		case code := <-done:
			return code
		case <-time.After(testLimit):
			b.t.Fatal("the program did not end")
			return -1
		}
	}
}

// seen are the lines that a person has seen scroll by.
func (x *terminal) seen(columns int) []string {
	screen := emulator.New(columns)
	_, _ = screen.Write(x.bytes()) // never fails
	return screen.Lines()
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// talker prints from two processes at once, and the supervisor logs beside them.
const talker = `
        import os, sys
        line = lambda c: os.write(2, (c * 150 + "\n").encode())
        if os.fork() == 0:
            for _ in range(400): line("b")
            os._exit(0)
        for _ in range(400): line("a")
        os.wait()
        sys.stderr.write("c" * (200 << 10) + "\n")
        sys.stderr.write("\x1b[31mred\x1b[0m \x1b[2J\x1b[10;10Hmoved\r\x1b]0;title\x07second\n")
        return self.out.emit(record)
`

// On a terminal: every line whole, of the process, of its child and of ours, a live
// line below them with the figures, and none left at the end. Escapes that would
// move the cursor do not get through.
func TestCase65_WholeLinesAboveTheLiveLine(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	x, stop := b.onTerminal(120, nil, nil, sdkStreamlet(t, "", talker))
	x.await(0, `case: 0 in/s, 0 out/s, 0 behind`)
	b.putN(1)
	b.awaitCommit(1)
	_, at := x.await(0, `\| .*second`)
	x.await(at, `case: 0\.\d in/s, 0\.\d out/s, 0 behind`)
	x.resize(20, 24)
	x.await(at, `\x1b\[Jcase: 0[ 0-9.in/so,ut]{10,13}$|\x1b\[2mcase: .{12,13}\x1b\[0m`)
	x.resize(120, 24)
	if code := stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	counts := map[string]int{}
	lines := x.seen(120)
	for _, line := range lines {
		if text, ok := strings.CutPrefix(line, "case | "); ok {
			counts[text[:1]] += len(text)
			if strings.ContainsAny(text[:1], "abc") && strings.Trim(text, text[:1]) != "" {
				t.Errorf("a torn line: %.200q", line)
			}
			continue
		}
		if line != "" && !regexp.MustCompile(`^(INF|\^C *INF) `).MatchString(line) {
			t.Errorf("a line of nobody: %.200q", line)
		}
	}
	if counts["a"] != 400*150 || counts["b"] != 400*150 || counts["c"] != 200<<10 {
		t.Errorf("of the lines there are %v bytes", counts)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"case | red moved\ncase | second\n", "INF stopped"} {
		if !strings.Contains(text, want) {
			t.Errorf("nobody has seen %q", want)
		}
	}
	if strings.Contains(text, "in/s") || lines[len(lines)-1] != "" {
		t.Errorf("the live line is still there: %q", tail([]byte(text), 300))
	}
}

// Color only where it is wanted, and the live line only where it can be drawn.
func TestCase65_ColorOnlyWhereWanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		env, flags  []string
		color, live bool
	}{
		{"a terminal", nil, nil, true, true},
		{"NO_COLOR", []string{"NO_COLOR=1"}, nil, false, true},
		{"--color never", nil, []string{"--color", "never"}, false, true},
		{"NO_COLOR and --color always", []string{"NO_COLOR=1"}, []string{"--color", "always"}, true, true},
		{"a dumb terminal", []string{"TERM=dumb"}, nil, false, false},
		{"JSON on a terminal", nil, []string{"--log-format", "json", "--color", "always"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			x, stop := b.onTerminal(120, c.env, c.flags, sdkStreamlet(t, "", `
        print("\x1b[32mgreen\x1b[0m")
        return self.out.emit(record)
`))
			b.putN(1)
			b.awaitCommit(1)
			_, at := x.await(0, `committed`)
			if c.live {
				x.await(at, `in/s`)
			}
			if code := stop(); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			got := string(x.bytes())
			if has := strings.Contains(got, "\x1b[32mgreen"); has != c.color {
				t.Errorf("the process's color got through: %v, want %v", has, c.color)
			}
			colors := 0
			for _, e := range escapes.FindAllString(got, -1) {
				if strings.HasSuffix(e, "m") {
					colors++
				}
			}
			if colors > 0 != c.color {
				t.Errorf("%d colors, want some: %v", colors, c.color)
			}
			if !c.live && escapes.MatchString(strings.ReplaceAll(got, "\x1b[m", "")) || !c.live && strings.Contains(got, "in/s") {
				t.Errorf("what cannot be drawn was: %q", tail([]byte(got), 300))
			}
		})
	}
}

// Off a terminal there is no escape at all, as text and as JSON lines.
func TestCase65_NoColorOffATerminal(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := startProgram(t, programOptions{dir: b.dir, env: caseEnv("FLOW_LOG_FORMAT=" + format)}, append([]string{"run", "-b", b.address(), "--"}, sdkStreamlet(t, "", talker)...)...)
			b.awaitCommit(1)
			p.await("second")
			p.stopsWell()
			bytes := 0
			for _, line := range strings.Split(p.stderr(), "\n") {
				if strings.ContainsAny(line, "\x1b\r") {
					t.Errorf("%.200q", line)
				}
				if format == "json" && !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %.200q", line)
				}
				bytes += strings.Count(line, "cccccccccc") * 10
			}
			if bytes < 200<<10-100 {
				t.Errorf("%d bytes of the long line", bytes)
			}
		})
	}
}

func TestLiveText(t *testing.T) {
	t.Parallel()
	plan := &driver.Plan{Streamlet: "s"}
	tp := func(n int32) delivery.TP { return delivery.TP{Inlet: "in", Partition: n} }
	for _, c := range []struct {
		status delivery.Status
		want   string
	}{
		{delivery.Status{Ready: true}, "s: 1,234 in/s, 0.2 out/s, 0 behind"},
		{delivery.Status{}, "s: starting, 1,234 in/s"},
		{delivery.Status{State: delivery.Running}, "s: joining its groups, "},
		{delivery.Status{AwaitsSave: true}, "s: waiting, "},
		{delivery.Status{NextDiscovery: 103 * time.Second}, "s: next try in 3s, "},
		{delivery.Status{Stopping: true, Ready: true}, "s: stopping, "},
		{delivery.Status{Ready: true, Partitions: []delivery.PartitionStatus{
			{TP: tp(0), Since: -1}, {TP: tp(1), Since: 95 * time.Second}, {TP: tp(2), Since: 80 * time.Second}, {TP: tp(3), Since: 70 * time.Second},
		}}, "0 behind, in/3 stands for 30s, and 1 more"},
	} {
		var p pace
		for i := range uint64(40) {
			p.add(time.Duration(i)*500*time.Millisecond, 617*i, i/10)
		}
		s := driver.Snapshot{Status: c.status, Now: 100 * time.Second, Plan: plan}
		if got := liveText(&s, &p); !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q in it", got, c.want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.04: "0.0", 9.94: "9.9", 9.96: "10", 999.6: "1,000", 1234567: "1,234,567", 3: "3"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%v) = %q, want %q", n, got, want)
		}
	}
}
