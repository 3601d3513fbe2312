//go:build unix

package kafka

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// hungUp says whether the other side has closed the connection already, which
// a write would not notice. Data that waits to be read is no hang-up.
func hungUp(c net.Conn) bool {
	sc, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true // closed by us
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		again := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
		gone = err == nil && n == 0 || err != nil && !again
	})
	return gone || err != nil
}
