package kafka

import "sync"

// prefetchBudget bounds what all consumers of a client have fetched and not
// read out, in bytes as fetched (R10). It is exceeded by at most one batch a
// fetch, since a broker sends the first batch whole whatever its size (kfake
// one a partition, which matters for long polls alone; see fit).
const prefetchBudget = 64 << 20

// budget is that bound. Fetches take from it what they ask for, before asking.
type budget struct {
	mu    sync.Mutex
	left  int
	freed chan struct{} // closed when something came back; nil: nobody waits
}

// take takes up to most bytes, or nothing where less than least are left.
func (b *budget) take(most, least int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < least {
		return 0
	}
	n := min(most, b.left)
	b.left -= n
	return n
}

// charge takes n bytes whether they are there or not; a negative n gives back.
func (b *budget) charge(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= n
	if n < 0 && b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// wait gives a channel that is closed when something has come back.
func (b *budget) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}
