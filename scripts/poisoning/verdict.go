package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// shown is how many violations of one kind are printed.
const shown = 10

// judge ends everybody and looks at what is in the logs: all that was before each
// bad record is committed, nothing of it, and every outlet has exactly what is
// committed.
func (b *bench) judge(ctx context.Context) error {
	ends := make([]string, len(b.supervisors)) // all of them first: reading takes the broker all it has
	var ending sync.WaitGroup
	for i, s := range b.supervisors {
		ending.Go(func() { ends[i] = s.end(endLimit) }) // awaited below
	}
	ending.Wait()
	for i, s := range b.supervisors {
		if ends[i] != "exit status 0" {
			b.miss("%s: SIGTERM: %s", s.kind, ends[i])
		}
		committed := b.broker.committed(s.group)
		for partition, offset := range bad {
			want := offset
			if s.kind == clean {
				want = badRecords
			}
			if committed[partition] != want {
				b.miss("%s: %s/%d is committed at %d, not at %d", s.kind, inlet, partition, committed[partition], want)
			}
		}
		report, err := b.broker.judge(ctx, s.group, s.outlet)
		if err != nil {
			return err
		}
		b.figures[s.kind].repeats = report.Repeats
		for n, v := range report.Violations {
			if n == shown {
				b.miss("%s: and %d more violations", s.kind, len(report.Violations)-n)
				break
			}
			b.miss("%s: %v", s.kind, v)
		}
	}
	return nil
}

// mend runs each kind once more, under --watch, saves a streamlet that no record
// fails in, and waits until the partitions go on.
func (b *bench) mend(ctx context.Context) error {
	for _, s := range b.supervisors[1:] {
		if err := s.launch(b.binary, "--watch"); err != nil {
			return err
		}
	}
	for _, s := range b.supervisors[1:] {
		if err := b.await(ctx, s.kind+": a failure under --watch", func() bool {
			return s.first(func(l *line) bool {
				return l.Event == "waiting" && strings.Contains(l.Msg, "save") ||
					l.Event == "convicted" && l.Tries > 1
			}) != nil
		}); err != nil {
			return err
		}
		if err := s.save(b.streamlet); err != nil {
			return err
		}
		saved := time.Now()
		if err := b.await(ctx, s.kind+": the partitions go on after the save", func() bool {
			committed := b.broker.committed(s.group)
			for partition, offset := range bad {
				if committed[partition] <= offset {
					return false
				}
			}
			return true
		}); err != nil {
			return err
		}
		f := b.figures[s.kind]
		f.afterSave = time.Since(saved)
		if limit := b.after + b.start + b.batch; f.afterSave > limit {
			b.miss("%s: the partitions go on %v after the save, and %v are promised", s.kind, f.afterSave.Round(time.Millisecond), limit)
		}
		if how := s.end(endLimit); how != "exit status 0" {
			b.miss("%s: SIGTERM after the save: %s", s.kind, how)
		}
	}
	return nil
}

// await polls what has no event to wait for.
func (b *bench) await(ctx context.Context, what string, holds func() bool) error {
	for limit := time.Now().Add(stuckAfter); !holds(); {
		if time.Now().After(limit) {
			return fmt.Errorf("not within %v: %s", stuckAfter, what)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// conclude prints the figures, and keeps the folder where a promise was not kept.
func (b *bench) conclude() error {
	var each []string
	for _, kind := range b.list() {
		f := b.figures[kind]
		text := fmt.Sprintf("%s: named %.1fs, others %.1f %%, %d repeats", kind, f.named.Seconds(), 100*f.share, f.repeats)
		if b.save {
			text += fmt.Sprintf(", on %.1fs after a save", f.afterSave.Seconds())
		}
		each = append(each, text)
	}
	work := fmt.Sprintf("a record takes %v", b.record)
	if b.batch > 0 {
		work = fmt.Sprintf("a batch takes %v", b.batch)
	}
	if len(b.missed) > 0 || b.keep {
		fmt.Println("the logs are in", b.dir)
	} else if err := os.RemoveAll(b.dir); err != nil {
		return err
	}
	fmt.Printf("poison: %d partitions, %d bad, %s, start %v, %v each; %s; %d promises not kept\n",
		partitions, len(bad), work, b.start, b.window, strings.Join(each, "; "), len(b.missed))
	if len(b.missed) > 0 {
		return errMissed
	}
	return nil
}
