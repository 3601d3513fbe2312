package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// supervisor is the program with one kind of poison; the clean one has none.
type supervisor struct {
	kind, group, outlet string
	dir, script         string
	args, env           []string
	log                 *os.File

	cmd    *exec.Cmd
	exited chan struct{}

	mu    sync.Mutex
	lines []line
	url   string
}

// line is what of a line of its log is looked at.
type line struct {
	at        time.Time
	Msg       string
	Event     string
	Warning   string
	Topic     string
	Partition int32
	Offset    int64
	Tries     int
	Error     string
}

var statusAddress = regexp.MustCompile(`status (http://\S+?)(,|$)`)

func newSupervisor(b *bench, kind string) (*supervisor, error) {
	pipeline := "poison-" + kind
	s := &supervisor{
		kind: kind, group: pipeline + ".poison.in", outlet: pipeline + ".out",
		dir: filepath.Join(b.dir, kind),
	}
	s.script = filepath.Join(s.dir, "streamlet.py")
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.script, b.streamlet, 0o644); err != nil {
		return nil, err
	}
	var err error
	if s.log, err = os.Create(filepath.Join(b.dir, kind+".log")); err != nil {
		return nil, err
	}
	poison := kind
	if kind == clean {
		poison = ""
	}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FLOW_") && !strings.HasPrefix(e, "ANKKA_FLOW_") && !strings.HasPrefix(e, "KUBERNETES_") {
			s.env = append(s.env, e)
		}
	}
	seconds := func(name string, d time.Duration) string { return fmt.Sprintf("%s=%f", name, d.Seconds()) }
	s.env = append(s.env, "PYTHONPATH="+filepath.Join(b.root, "sdk/python/src"), "POISON="+poison,
		seconds("POISON_RECORD", b.record), seconds("POISON_BATCH", b.batch), seconds("POISON_START", b.start),
		"FLOW_BATCH_TIMEOUT="+b.timeout.String(), "FLOW_STALL_WARNING_AFTER="+stallAfter.String(),
		"FLOW_DISCOVERY_TIMEOUT="+(time.Minute+b.start).String(), "FLOW_SESSION_TIMEOUT=30s")
	s.args = []string{"--log-format", "json", "run", "--pipeline", pipeline, "--topic", "in=" + inlet, "--topic", "out=" + s.outlet,
		"-b", strings.Join(b.broker.cluster.ListenAddrs(), ",")}
	return s, nil
}

// launch runs it, with these flags more.
func (s *supervisor) launch(binary string, more ...string) error {
	cmd := exec.Command(binary, append(append(append([]string{}, s.args...), more...), "--", "python3", s.script)...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.mu.Lock()
	s.cmd, s.exited, s.lines, s.url = cmd, exited, nil, ""
	s.mu.Unlock()
	go func() { // ends with the supervisor; awaited through exited
		defer close(exited)
		lines := bufio.NewReader(out)
		for {
			text, err := lines.ReadBytes('\n')
			s.line(text)
			if err != nil {
				break
			}
		}
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
	return nil
}

func (s *supervisor) line(text []byte) {
	l := line{at: time.Now()}
	_ = json.Unmarshal(text, &l) // what is no log line has no event
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.log.Write(text) // a full disk shows elsewhere
	s.lines = append(s.lines, l)
	if found := statusAddress.FindStringSubmatch(l.Msg); l.Event == "ready" && found != nil {
		s.url = found[1]
	}
}

// first is the first line that holds; nil: none yet.
func (s *supervisor) first(holds func(l *line) bool) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.lines {
		if holds(&s.lines[i]) {
			return &s.lines[i]
		}
	}
	return nil
}

// status is /status.json, as far as it is looked at.
type status struct {
	State      string
	Partitions []struct {
		Topic     string
		Partition int32
		Standing  string
		Suspect   int64
		Tries     int
		LastError string `json:"last_error"`
	}
}

func (s *supervisor) status(ctx context.Context) (*status, error) {
	s.mu.Lock()
	url := s.url
	s.mu.Unlock()
	if url == "" {
		return &status{}, nil // it is not ready yet
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/status.json", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var st status
	return &st, json.NewDecoder(answer.Body).Decode(&st)
}

// save mends the streamlet, whole or not at all.
func (s *supervisor) save(streamlet []byte) error {
	mended := bytes.Replace(streamlet, []byte("MENDED = False"), []byte("MENDED = True"), 1)
	next := filepath.Join(s.dir, "next")
	if err := os.WriteFile(next, mended, 0o644); err != nil {
		return err
	}
	return os.Rename(next, s.script)
}

// end asks it to stop, and returns how it ended.
func (s *supervisor) end(limit time.Duration) string {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // one that is gone shows below
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.exited:
		return s.cmd.ProcessState.String()
	case <-timer.C:
		return fmt.Sprintf("still there %v after SIGTERM", limit)
	}
}

func (s *supervisor) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	_ = s.log.Close()
}
