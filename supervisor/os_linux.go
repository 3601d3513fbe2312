package supervisor

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes: a process group of its own, so that Ctrl-C reaches us alone, and death
// with the thread that launches it, which live keeps until the child has ended.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func pipe() (fds [2]int, err error) {
	err = syscall.Pipe2(fds[:], syscall.O_CLOEXEC)
	return fds, err
}

// enlarge does what the system allows; a smaller pipe only means more waking up.
func enlarge(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	}
}

// pipeUnread works on either end of a pipe.
func pipeUnread(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// peerPid is the process at the other end of a connection; 0: unknown.
func peerPid(conn *net.UnixConn) (pid int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// awaitEnd returns when our child pid has ended, and leaves its wait status where it is. It
// waits for this pid alone: another part of the program may reap orphans (as PID 1), if it
// looks (WNOWAIT) before it takes.
//
// Until the status is taken the kernel keeps the pid, and so the group's id, from being given
// to anybody else: what remains of the group can be killed without hitting strangers.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// processes calls each with the pid and state of every process that we may see, in no order.
func processes(each func(pid int, s procStat)) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it is gone
		}
		if s, ok := parseStat(string(text)); ok {
			each(pid, s)
		}
	}
}

// groupMembers are the living processes of group pgid without its leader, as "pid name".
func groupMembers(pgid int) []string {
	var members []string
	processes(func(pid int, s procStat) {
		if pid != pgid && s.group == pgid && s.living() {
			members = append(members, fmt.Sprintf("%d %s", pid, s.comm))
		}
	})
	return members
}

// descendants are the living processes that pid launched, and those that they launched, without
// those of its own group. One whose parent has ended (a daemon) is none.
func descendants(pid int) []int {
	children, groups := map[int][]int{}, map[int]int{}
	processes(func(child int, s procStat) {
		if s.living() {
			children[s.parent] = append(children[s.parent], child)
			groups[child] = s.group
		}
	})
	var found []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		if groups[next[0]] != pid {
			found = append(found, next[0])
		}
		next = append(next, children[next[0]]...)
	}
	return found
}

// takeOrphans takes the status of every child of ours that has ended and that spare does not
// claim, and says how many those were. A status is asked for by its pid: asking for any
// (P_ALL) would show the oldest first, which may be one that has to stay.
func takeOrphans(spare func(pid int) bool) int {
	self, n := os.Getpid(), 0
	processes(func(pid int, s procStat) {
		if s.parent != self || s.state != 'Z' || spare(pid) {
			return
		}
		if got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err == nil && got == pid {
			n++
		}
	})
	return n
}

// procStat is what /proc/PID/stat says of a process.
type procStat struct {
	comm          string
	state         byte
	parent, group int
	flags         uint64
}

// exiting is the kernel's PF_EXITING. A process closes its pipes some time before it is a
// zombie; seen between the two it would be blamed for staying while it goes.
const exiting = 0x4

func (s procStat) living() bool { return s.state != 'Z' && s.state != 'X' && s.flags&exiting == 0 }

// parseStat reads "pid (name) state ppid pgrp session tty tpgid flags ..."; a name may hold
// spaces and parentheses.
func parseStat(stat string) (procStat, bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return procStat{}, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 7 {
		return procStat{}, false
	}
	s := procStat{comm: stat[open+1 : end], state: fields[0][0]}
	s.parent, _ = strconv.Atoi(fields[1])
	s.group, _ = strconv.Atoi(fields[2])
	s.flags, _ = strconv.ParseUint(fields[6], 10, 64)
	return s, true
}
