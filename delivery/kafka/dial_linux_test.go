package kafka

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deaf is an address whose connections are never made: its backlog is full, so that
// the system answers no more, as behind a firewall that drops.
func deaf(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 16 { // one or two are taken
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the backlog takes all connections")
	return ""
}

// Nobody answers to the connection itself: that is named within the time that a
// connection may take to open, and Close does not wait for it.
func TestCase61_ABrokerThatDoesNotAcceptIsNamed(t *testing.T) {
	c := newTestClient(t, []string{deaf(t)}, func(c *Config) { c.RequestTimeout = time.Hour })
	begin := time.Now()
	err := c.Probe(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "not even to TCP") {
		t.Errorf("%v", err)
	}
	if d := time.Since(begin); d > 7*time.Second {
		t.Errorf("it took %v", d)
	}
	begin = time.Now()
	c.Close()
	if d := time.Since(begin); d > time.Second {
		t.Errorf("Close took %v", d)
	}
}
