//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package supervisor

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes: a process group of its own, so that Ctrl-C reaches us alone. There is no
// parent-death signal here: a child that outlives us sees the end of its stdin.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// pipe takes the fork lock, so that no child launched meanwhile inherits an end of it.
func pipe() (fds [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(fds[:]); err != nil {
		return fds, err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return fds, nil
}

// enlarge: pipes grow by themselves here, or cannot.
func enlarge(*os.File) {}

// fionread is FIONREAD, _IOR('f', 127, int), on every system of this file; x/sys lacks it.
const fionread = 0x4004667f

// pipeUnread works on a reading end. A writing end answers 0, so that liveness sees a
// process read only where that lets us write on.
func pipeUnread(fd int) int {
	n, err := unix.IoctlGetInt(fd, fionread)
	if err != nil {
		return 0
	}
	return n
}

// awaitEnd returns when our child pid has ended, and leaves its wait status where it is. It
// waits for this pid alone. Until the status is taken the pid, and so the group's id, is
// nobody else's.
func awaitEnd(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return // then taking the status waits instead
	}
	defer unix.Close(queue)
	change := make([]unix.Kevent_t, 1)
	unix.SetKevent(&change[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	change[0].Fflags = unix.NOTE_EXIT
	event := make([]unix.Kevent_t, 1)
	for {
		_, err := unix.Kevent(queue, change, event, nil)
		if err != unix.EINTR {
			return // it ended, or had ended before we asked (ESRCH)
		}
	}
}

// peerPid is not asked for here.
func peerPid(*net.UnixConn) int { return 0 }

// groupMembers are not known here: there is no /proc.
func groupMembers(int) []string { return nil }

// descendants are not known here: there is no /proc.
func descendants(int) []int { return nil }

// takeOrphans takes nothing: this system has no containers whose process 1 we could be.
func takeOrphans(func(int) bool) int { return 0 }
