package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// supervisor is one that is started again and again, in a folder of its own.
type supervisor struct {
	name string // MODE-N, also of its folder and its log
	mode string
	args []string
	env  []string
	dir  string
	log  *os.File

	// Who does something to it holds it: one fault at a time.
	busy bool // under soak.mu

	cmd    *exec.Cmd
	exited chan struct{}

	mu      sync.Mutex
	process int  // pid of its newest process, 0 for none
	asked   bool // its end was asked for
}

var processLine = regexp.MustCompile(`^pid (\d+): `)

// start launches it. The caller holds it.
func (s *supervisor) start() error {
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.note("start, pid %d", cmd.Process.Pid)
	exited := make(chan struct{})
	s.mu.Lock()
	s.cmd, s.exited, s.process, s.asked = cmd, exited, 0, false
	s.mu.Unlock()
	go func() { // ends with the supervisor; awaited through exited
		defer close(exited)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			s.line(line)
			if err != nil {
				break
			}
		}
		_ = cmd.Wait() // how it ended is in ProcessState
		s.note("ended, pid %d: %v", cmd.Process.Pid, cmd.ProcessState)
	}()
	return nil
}

// note puts a line of ours into its log.
func (s *supervisor) note(text string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.log, "--- %s soak: %s\n", time.Now().UTC().Format(time.RFC3339Nano), fmt.Sprintf(text, args...))
}

func (s *supervisor) line(line []byte) {
	var parsed struct{ Msg, Event string }
	_ = json.Unmarshal(line, &parsed) // what is no log line has no event
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.log.Write(line) // a full disk shows elsewhere
	if found := processLine.FindStringSubmatch(parsed.Msg); parsed.Event == "process" && found != nil {
		s.process, _ = strconv.Atoi(found[1])
	}
}

// signal sends one to the supervisor; one that is gone needs none.
func (s *supervisor) signal(number syscall.Signal) { _ = s.cmd.Process.Signal(number) }

// signalProcess sends one to its newest process. A pid may be another's by now:
// where the system shows what a process is, it must be one of ours.
func (s *supervisor) signalProcess(pid int, number syscall.Signal, mark string) bool {
	if pid <= 0 {
		return false
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if _, missing := os.Stat("/proc/self/environ"); missing == nil && (err != nil || !bytes.Contains(environ, []byte(mark))) {
		return false
	}
	return syscall.Kill(pid, number) == nil
}

func (s *supervisor) processPid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// running is whether nobody knows of its end.
func (s *supervisor) running() bool {
	if s.exited == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// end sends a signal that ends it and waits for that.
func (s *supervisor) end(number syscall.Signal, limit time.Duration) (ended bool) {
	s.mu.Lock()
	s.asked = true
	s.mu.Unlock()
	s.signal(number)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.exited:
		return true
	case <-timer.C:
		return false
	}
}

// kill is for the end of everything: no verdict follows.
func (s *supervisor) kill() {
	if s.running() {
		s.signal(syscall.SIGCONT)
		s.end(syscall.SIGKILL, time.Minute)
	}
	_ = s.log.Close()
}

// newSupervisor makes the folder of one. Every other one is a dynamic member, as
// in a container; the others are static ones.
func (k *soak) newSupervisor(mode string) (*supervisor, error) {
	k.started[mode]++
	n := k.started[mode]
	s := &supervisor{name: fmt.Sprintf("%s-%d", mode, n), mode: mode}
	s.dir = filepath.Join(k.dir, "supervisors", s.name)
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(k.dir, s.name+".log"))
	if err != nil {
		return nil, err
	}
	s.log = log
	s.args = []string{k.binary, "--log-format", "json", "run", "-b", strings.Join(k.brokers, ","), "--pipeline", k.pipeline}
	for _, port := range []string{"in", "out", "other"} {
		s.args = append(s.args, "--topic", port+"="+k.topic(mode, port))
	}
	s.args = append(s.args, "--", "python3", filepath.Join(k.root, "scripts/soaking/streamlet.py"))
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FLOW_") && !strings.HasPrefix(e, "ANKKA_FLOW_") && !strings.HasPrefix(e, "KUBERNETES_") {
			s.env = append(s.env, e)
		}
	}
	s.env = append(s.env, "PYTHONPATH="+filepath.Join(k.root, "sdk/python/src"), "SOAK_MODE="+mode, "SOAK_STATE="+k.state, k.mark,
		"FLOW_SESSION_TIMEOUT="+groupSession.String(), "FLOW_PROCESS_TIMEOUT="+processTimeout.String(),
		"FLOW_RECONNECT_MAX_BACKOFF=2s", "FLOW_METRICS_PORT=0")
	if n%2 == 0 {
		s.env = append(s.env, "KUBERNETES_SERVICE_HOST=x")
	}
	return s, nil
}
