package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ankka-flow/cmd/ankka-flow/recordline"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/kafka/names"
	"ankka-flow/delivery/record"
)

// consumeFlags is what `consume` is told.
type consumeFlags struct {
	offset     string
	count      countFlag
	partition  partitionFlag
	exit       bool
	values     bool
	nest       bool
	brokerData string
}

func newConsume(a *app) *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print the records of a topic, as JSON lines",
		Long: `consume prints a line of JSON for each record and goes on until Ctrl-C. It belongs to no
group and commits nothing. Under read_committed, aborted records are left out.`,
		Example: "  ankka-flow consume cart-router.review -n 1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse("consume takes one topic: ankka-flow consume TOPIC")
			}
			return a.consume(cmd.Context(), &f, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.offset, "offset", "o", "start", "where to begin in each partition: start, end, N, -N (the last N), or @TIME (RFC 3339, or milliseconds since 1970)")
	f.partition = anyPartition
	flags.VarP(&f.count, "count", "n", "end after this many records (default: never)")
	flags.VarP(&f.partition, "partition", "p", "only this partition")
	flags.BoolVarP(&f.exit, "exit", "e", false, "end at the end that each partition has now")
	flags.BoolVar(&f.values, "values", false, "print only the values, as they are, a line each")
	flags.BoolVar(&f.nest, "nest", false, "put values that are JSON objects or arrays inline, reformatted to be compact; without it, produce gets back the very bytes")
	flags.StringVar(&f.brokerData, "broker-data", defaultBrokerData, usage("broker-data"))
	return cmd
}

// place is where a partition is read from and, with --exit, to.
type place struct {
	partition   int32
	offset, end int64
}

func (a *app) consume(ctx context.Context, f *consumeFlags, topic string) error {
	if err := names.CheckTopic(topic); err != nil {
		return misuse("%w", err)
	}
	at, err := parseOffset(f.offset)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = a.follow(ctx, f, topic, at)
	if ctx.Err() != nil {
		return nil // Ctrl-C is how it is ended
	}
	return err
}

// follow prints the topic from a start on.
func (a *app) follow(ctx context.Context, f *consumeFlags, topic string, at *start) error {
	conn, err := a.connect(ctx, f.brokerData)
	if err != nil {
		return err
	}
	defer conn.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn.embedded.whenLost(cancel)
	err = a.print(ctx, conn, f, topic, at)
	if lost := conn.embedded.failure(); lost != nil {
		return lost
	}
	return err
}

func (a *app) print(ctx context.Context, conn *connection, f *consumeFlags, topic string, at *start) error {
	if err := conn.toRead(ctx, topic); err != nil {
		return err
	}
	places, err := at.places(ctx, conn.client, topic, f.partition)
	if err != nil {
		return err
	}
	printer := &printer{out: bufio.NewWriter(a.stdout), flags: f, topic: topic, left: int(f.count)}
	err = printer.follow(ctx, conn.client, places)
	if flushErr := printer.out.Flush(); err == nil {
		err = flushErr
	}
	return err
}

// start is where --offset says to begin.
type start struct {
	// at is kafka.Earliest, kafka.Latest or a timestamp, for ListOffsets.
	at int64
	// absolute, where isAbsolute, is an offset; back counts from the end.
	absolute   int64
	isAbsolute bool
	back       int64
}

func parseOffset(text string) (*start, error) {
	wrong := misuse("--offset %q: it is start, end, N, -N or @TIME", text)
	switch {
	case text == "start":
		return &start{at: kafka.Earliest}, nil
	case text == "end":
		return &start{at: kafka.Latest}, nil
	case strings.HasPrefix(text, "@"):
		if ms, err := strconv.ParseInt(text[1:], 10, 64); err == nil && ms >= 0 {
			return &start{at: ms}, nil
		}
		t, err := time.Parse(time.RFC3339, text[1:])
		if err != nil || t.UnixMilli() < 0 {
			return nil, wrong
		}
		return &start{at: t.UnixMilli()}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, wrong
	}
	if n < 0 || text == "-0" {
		return &start{at: kafka.Latest, back: -n}, nil
	}
	return &start{at: kafka.Earliest, absolute: n, isAbsolute: true}, nil
}

// places is where each partition begins and ends, in partition order.
func (s *start) places(ctx context.Context, client *kafka.Client, topic string, only partitionFlag) ([]place, error) {
	firsts, err := client.ListOffsets(ctx, topic, kafka.Earliest)
	if err != nil {
		return nil, err
	}
	ends, err := client.ListOffsets(ctx, topic, kafka.Latest)
	if err != nil {
		return nil, err
	}
	var begins map[int32]int64
	switch s.at {
	case kafka.Earliest:
		begins = firsts
	case kafka.Latest:
		begins = ends
	default:
		if begins, err = client.ListOffsets(ctx, topic, s.at); err != nil {
			return nil, err
		}
	}
	if err := only.check(topic, int32(len(ends))); err != nil {
		return nil, err
	}
	var places []place
	for partition, end := range ends {
		if only != anyPartition && partition != int32(only) {
			continue
		}
		p := place{partition: partition, offset: begins[partition], end: end}
		switch {
		case p.offset < 0: // no record is as young as the time asked for
			p.offset = end
		case s.isAbsolute:
			p.offset = max(s.absolute, firsts[partition])
		case s.back > 0:
			p.offset = max(end-s.back, firsts[partition])
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int { return int(a.partition - b.partition) })
	return places, nil
}

// printer writes records until enough were written.
type printer struct {
	mu    sync.Mutex
	out   *bufio.Writer
	flags *consumeFlags
	topic string
	line  []byte
	left  int // of --count; only where that is not 0
}

// errEnough ends the reading once --count records are printed.
var errEnough = errors.New("enough records")

// follow reads every partition: one after the other where each has an end, so
// that the output of the same topic is the same; else all at once.
func (p *printer) follow(ctx context.Context, client *kafka.Client, places []place) error {
	if p.flags.exit {
		for _, at := range places {
			if err := p.read(ctx, client, at); err != nil {
				return enough(err)
			}
		}
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(places))
	var readers sync.WaitGroup
	for _, at := range places {
		readers.Go(func() { failed <- p.read(ctx, client, at) }) // ends with ctx; awaited below
	}
	err := <-failed // one without an end only ends with an error
	cancel()
	readers.Wait()
	return enough(err)
}

func enough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// read prints one partition from a place on, to its end with --exit.
func (p *printer) read(ctx context.Context, client *kafka.Client, at place) error {
	for !p.flags.exit || at.offset < at.end {
		var printErr error
		past := false // a younger record came first: there may be none just below the end
		next, err := client.FetchOnce(ctx, p.topic, at.partition, at.offset, func(r *record.Record) bool {
			if past = p.flags.exit && r.Offset >= at.end; past {
				return false
			}
			printErr = p.print(at.partition, r)
			return printErr == nil
		})
		if err == nil {
			err = printErr
		}
		if err != nil {
			return err
		}
		at.offset = next
		if err := p.flush(); err != nil || past {
			return err
		}
	}
	return nil
}

func (p *printer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Flush()
}

func (p *printer) print(partition int32, r *record.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flags.count > 0 && p.left == 0 {
		return errEnough
	}
	if p.flags.values {
		p.line = append(p.line[:0], r.Value...)
	} else {
		p.line = recordline.Append(p.line[:0], &recordline.Line{Topic: p.topic, Partition: partition, Record: *r}, p.flags.nest)
	}
	if _, err := p.out.Write(append(p.line, '\n')); err != nil {
		return fmt.Errorf("writing to stdout: %w", err)
	}
	if p.flags.count > 0 {
		if p.left--; p.left == 0 {
			return errEnough
		}
	}
	return nil
}
