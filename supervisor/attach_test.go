package supervisor

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ankka-flow/wire"
)

// attachLimit bounds every wait of these tests.
const attachLimit = 60 * time.Second

// listenAt is a listener and what it tells.
func listenAt(t *testing.T, path string) (*Listener, chan string) {
	t.Helper()
	came := make(chan string, 8)
	l, err := Listen(path, came, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, came
}

// dial connects as a program would, and Take gives the other end.
func dial(t *testing.T, l *Listener, came chan string) (*net.UnixConn, *Attached) {
	t.Helper()
	conn := connect(t, l.Path())
	select {
	case <-came:
	case <-time.After(attachLimit):
		t.Fatal("nobody was let in")
	}
	a, err := l.Take(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return conn, a
}

func connect(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// next is the next event, or nil at the end.
func next(t *testing.T, a *Attached) Event {
	t.Helper()
	select {
	case ev := <-a.Events():
		return ev
	case <-time.After(attachLimit):
		t.Fatal("no event")
		return nil
	}
}

// The socket is its user's alone, also where one was left behind by a supervisor that
// died; it is gone after Close.
func TestAttach_SocketIsPrivateAndReplacesAStaleOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".ankka-flow", "attach.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	l, err := Listen(path, make(chan string, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
	l.Close()
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(names) != 1 || names[0] != path+".lock" {
		t.Errorf("left behind: %v", names)
	}
}

// What cannot be listened at says what to do.
func TestAttach_PathsThatDoNotWork(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(dir, "taken")
	listenAt(t, taken)
	for path, words := range map[string]string{
		filepath.Join(dir, strings.Repeat("x", 200)): "at most",
		file:  "is no socket",
		taken: "another ankka-flow run --attach listens there",
	} {
		l, err := Listen(path, nil, nil)
		if err == nil {
			l.Close()
			t.Errorf("%s: it listens", path)
			continue
		}
		if !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "FLOW_ATTACH") {
			t.Errorf("%v: want %q and FLOW_ATTACH in it", err, words)
		}
	}
}

// The same frames as on the pipes, both ways; the end of input leaves the program time to
// answer; its own end is a disconnect and no exit code.
func TestAttach_SpeaksFramesAndEnds(t *testing.T) {
	l, came := listenAt(t, filepath.Join(t.TempDir(), "s"))
	conn, a := dial(t, l, came)
	if a.Pid() != os.Getpid() && a.Pid() != 0 {
		t.Errorf("pid %d, want %d", a.Pid(), os.Getpid())
	}
	ping, err := wire.Append(nil, wire.Ping{N: 7})
	if err != nil {
		t.Fatal(err)
	}
	a.Control(ping)
	a.CloseInput()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != string(ping) {
		t.Fatalf("the program read %x, %v; want %x and the end", got, err, ping)
	}
	pong, err := wire.Append(nil, wire.Pong{N: 7})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(pong); err != nil {
		t.Fatal(err)
	}
	if r, ok := next(t, a).(Received); !ok || r.Message != (wire.Pong{N: 7}) {
		t.Fatalf("got %v, want the pong", r)
	}
	_ = conn.Close()
	if e, ok := next(t, a).(Exited); !ok || !e.Disconnected || e.Killed || e.String() != "disconnected" {
		t.Fatalf("got %+v, want a disconnect", e)
	}
	if ev := next(t, a); ev != nil {
		t.Fatalf("%v after Exited", ev)
	}
}

// A violation is told; nothing after it counts, and hanging up ends the connection.
func TestAttach_ViolationAndKill(t *testing.T) {
	l, came := listenAt(t, filepath.Join(t.TempDir(), "s"))
	conn, a := dial(t, l, came)
	if _, err := conn.Write([]byte{0, 0, 0, 1, 0x90}); err != nil {
		t.Fatal(err)
	}
	if _, ok := next(t, a).(Broken); !ok {
		t.Fatal("an empty array is no violation")
	}
	a.Kill()
	if e, ok := next(t, a).(Exited); !ok || !e.Killed || !e.Disconnected {
		t.Fatalf("got %+v, want that we hung up", e)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the program reads on")
	}
}

// Beside the one that is attached a second program gets a refuse and the end, and the
// first one notices nothing; once that has gone, the next is let in.
func TestAttach_SecondIsRefused(t *testing.T) {
	l, came := listenAt(t, filepath.Join(t.TempDir(), "s"))
	first, a := dial(t, l, came)
	second := connect(t, l.Path())
	body, err := wire.NewReader(second).Next()
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.ParseFromSupervisor(body)
	if refused, ok := m.(wire.Refuse); err != nil || !ok || len(refused.Problems) != 1 || !strings.Contains(refused.Problems[0], "end it first") {
		t.Fatalf("the second got %v, %v", m, err)
	}
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("the second is not hung up on")
	}
	select {
	case ev := <-a.Events():
		t.Fatalf("the first one has %v", ev)
	default:
	}
	_ = first.Close()
	if e, ok := next(t, a).(Exited); !ok {
		t.Fatalf("got %v", e)
	}
	dial(t, l, came)
}
