package supervisor

import (
	"os"
	"sync"
)

// Reaper takes the wait statuses of processes that nobody launched here. Where this program is
// PID 1 every orphan becomes its child, and stays a zombie until somebody takes its status.
//
//  1. The status of a process that was launched with Options.Reaper is never taken by Reap, not
//     even between its start and the moment its pid is known.
//  2. A pid is spared no longer than its status is there: what gets the number next is an orphan
//     like any other.
//
// Its methods may be called from any goroutine. A nil Reaper spares and takes nothing.
type Reaper struct {
	mu   sync.Mutex
	ours map[int]bool // launched, and the status not taken
}

// NewReaper makes a Reaper that spares nothing yet. Make it only where orphans become our
// children: elsewhere there are none to take.
func NewReaper() *Reaper { return &Reaper{ours: map[int]bool{}} }

// Reap takes the status of every orphan that has ended, and returns how many there were. It is
// due at every SIGCHLD. It does not wait for anything but a launch that is under way.
func (r *Reaper) Reap() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return takeOrphans(func(pid int) bool { return r.ours[pid] })
}

// launch starts a process and claims its pid before Reap can look.
func (r *Reaper) launch(start func() (*os.Process, error)) (*os.Process, error) {
	if r == nil {
		return start()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	child, err := start()
	if err == nil {
		r.ours[child.Pid] = true
	}
	return child, err
}

// take takes the status of a process that has ended and gives its pid up.
func (r *Reaper) take(child *os.Process) (*os.ProcessState, error) {
	if r == nil {
		return child.Wait()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ours, child.Pid)
	return child.Wait()
}
