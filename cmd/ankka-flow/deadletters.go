package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ankka-flow/cmd/ankka-flow/deadletter"
	"ankka-flow/cmd/ankka-flow/recordline"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/kafka/names"
	"ankka-flow/delivery/record"
)

// lettersFlags is what the commands of `dead-letters` are told.
type lettersFlags struct {
	adminFlags
	where     []string
	to        string
	rate      countFlag
	redrives  countFlag
	selection deadletter.Selection // what the flags mean
}

func newDeadLetters(a *app) *cobra.Command {
	f := lettersFlags{redrives: 3}
	parent := &cobra.Command{
		Use:   "dead-letters",
		Short: "Count, show and redrive the records of a dead-letter topic",
		Long: `dead-letters reads a dead-letter topic up to its present end: one that an SDK's error policy
writes, or one of Kafka Connect with its context headers. Only redrive --yes writes anything.`,
		Example: "  ankka-flow dead-letters list cart-router.dlq",
		RunE:    noCommand,
	}
	list := &cobra.Command{
		Use: "list TOPIC", Short: "Count dead letters by topic, stage, exception, reason and redrives",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onLetters(cmd, &f, args, (*connection).listLetters)
		},
	}
	show := &cobra.Command{
		Use: "show TOPIC", Short: "Print dead letters as JSON lines, as consume does",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onLetters(cmd, &f, args, (*connection).showLetters)
		},
	}
	redrive := &cobra.Command{
		Use: "redrive TOPIC", Short: "Write dead letters back to where they failed, or elsewhere",
		Long: `redrive writes each dead letter as the record that it was: key, value and its own headers, in
order, without the headers about the failure; __flow.errors.origin.* stay, and __flow.errors.redrives
counts. With --to origin it goes to the topic where it failed first and, where that has it, to the
same partition. Without --yes nothing is written: the counts say what would be.

What was redriven once, wherever to, is not redriven again: consumer groups ankka-flow.redrive.* keep that.
Ended in the midst, by kill -9 too, the same command goes on; the records written last may come
twice, 500 at most. It ends at the end that the topic had at the start. Run one at a time.
A record may come after younger ones with its key.`,
		Example: "  ankka-flow dead-letters redrive cart-router.dlq --where __flow.errors.reason=exhausted --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onLetters(cmd, &f, args, (*connection).redrive)
		},
	}
	for _, cmd := range []*cobra.Command{list, show, redrive} {
		cmd.Flags().StringArrayVar(&f.where, "where", nil, "only those whose header has that value, HEADER=VALUE; may be given several times, and all have to hold")
	}
	for _, cmd := range []*cobra.Command{list, redrive} {
		cmd.Flags().BoolVar(&f.json, "json", false, "the counts as JSON, a line each")
	}
	redrive.Flags().StringVar(&f.to, "to", deadletter.Origin, "where they go: origin, which is where each failed first, or a topic")
	redrive.Flags().Var(&f.rate, "rate", "records a second at most (default: no limit)")
	redrive.Flags().Var(&f.redrives, "max-redrives", "leave what was redriven that often")
	redrive.Flags().BoolVar(&f.yes, "yes", false, "do it; without it nothing is written")
	f.children(parent, list, show, redrive)
	return parent
}

// onLetters runs a command on the dead-letter topic that is its argument.
func (a *app) onLetters(cmd *cobra.Command, f *lettersFlags, args []string, do func(*connection, context.Context, *output, *lettersFlags, *letters) error) error {
	if len(args) != 1 {
		return misuse("%s takes one dead-letter topic: %s", strings.TrimPrefix(cmd.CommandPath(), "ankka-flow "), cmd.UseLine())
	}
	topic := args[0]
	if err := f.parse(topic); err != nil {
		return misuse("%w", err)
	}
	return a.administer(cmd.Context(), &f.adminFlags, func(c *connection, ctx context.Context, out *output) error {
		if err := c.toRead(ctx, topic); err != nil {
			return err
		}
		places, err := (&start{at: kafka.Earliest}).places(ctx, c.client, topic, anyPartition)
		if err != nil {
			return err
		}
		return do(c, ctx, out, f, &letters{client: c.client, topic: topic, places: places})
	})
}

// parse reads the flags; every problem at once.
func (f *lettersFlags) parse(topic string) error {
	problems := []error{names.CheckTopic(topic)}
	f.selection = deadletter.Selection{To: f.to, MaxRedrives: int(f.redrives)}
	for _, given := range f.where {
		w, err := deadletter.ParseWhere(given)
		if err != nil {
			problems = append(problems, fmt.Errorf("--where %w", err))
		}
		f.selection.Where = append(f.selection.Where, w)
	}
	if f.to != deadletter.Origin {
		if err := names.CheckTopic(f.to); err != nil {
			problems = append(problems, fmt.Errorf("--to: %w", err))
		}
		if f.to == topic {
			problems = append(problems, fmt.Errorf("--to %s: that is the dead-letter topic itself", topic))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if err := names.CheckGroup(f.selection.Group(topic)); err != nil {
		return fmt.Errorf("--where is too long: the group that keeps the progress has it in its name: %w", err)
	}
	return nil
}

// letters is a dead-letter topic, up to the ends that it had when it was looked at
// first: what comes back while it is redriven is not read.
type letters struct {
	client *kafka.Client
	topic  string
	places []place
}

// each visits every record, one partition after the other. visit must not keep it.
// done, where it is not nil, follows each partition.
func (l *letters) each(ctx context.Context, visit func(partition int32, r *record.Record) error, done func(partition int32) error) error {
	for _, at := range l.places {
		for at.offset < at.end {
			var visitErr error
			past := false // a younger record came first: there may be none just below the end
			next, err := l.client.FetchOnce(ctx, l.topic, at.partition, at.offset, func(r *record.Record) bool {
				if past = r.Offset >= at.end; past {
					return false
				}
				if visitErr = ctx.Err(); visitErr == nil {
					visitErr = visit(at.partition, r)
				}
				return visitErr == nil
			})
			if err == nil {
				err = visitErr
			}
			if err != nil {
				return err
			}
			if at.offset = next; past {
				break
			}
		}
		if done != nil {
			if err := done(at.partition); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *connection) listLetters(ctx context.Context, out *output, f *lettersFlags, l *letters) error {
	counts := deadletter.Histogram{}
	err := l.each(ctx, func(_ int32, r *record.Record) error {
		if f.selection.Selects(r.Headers) {
			letter := deadletter.Read(r.Headers)
			counts.Add(&letter, "", "")
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	return out.histogram(counts, false)
}

func (c *connection) showLetters(ctx context.Context, out *output, f *lettersFlags, l *letters) error {
	w := bufio.NewWriter(out.app.stdout)
	var line []byte
	err := l.each(ctx, func(partition int32, r *record.Record) error {
		if !f.selection.Selects(r.Headers) {
			return nil
		}
		line = recordline.Append(line[:0], &recordline.Line{Topic: l.topic, Partition: partition, Record: *r}, false)
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("writing to stdout: %w", err)
		}
		return nil
	}, nil)
	if flushErr := w.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("writing to stdout: %w", flushErr)
	}
	return err
}

// letterCount is a row of a histogram as JSON; null: not known.
type letterCount struct {
	Records   int     `json:"records"`
	Verdict   string  `json:"verdict,omitempty"`
	To        string  `json:"to,omitempty"`
	Origin    *string `json:"origin"`
	Topic     *string `json:"topic"`
	Stage     *string `json:"stage"`
	Exception *string `json:"exception"`
	Reason    *string `json:"reason"`
	Redrives  *int64  `json:"redrives"`
}

// histogram prints counts; with verdicts where it is about a redrive.
func (o *output) histogram(counts deadletter.Histogram, verdicts bool) error {
	if !o.json {
		head := []any{"RECORDS", "ORIGIN", "TOPIC", "STAGE", "EXCEPTION", "REASON", "REDRIVES"}
		if verdicts {
			head = append(head, "VERDICT", "TO")
		}
		o.row(head...)
	}
	for _, k := range counts.Kinds() {
		n, l := counts[k], &k.Letter
		if o.json {
			err := o.line(letterCount{n, string(k.Verdict), k.To, knownText(l.Topic), knownText(l.Failed), knownText(l.Stage), knownText(l.Exception), knownText(l.Reason), known(int64(l.Redrives))})
			if err != nil {
				return err
			}
			continue
		}
		row := []any{n}
		for _, text := range []string{l.Topic, l.Failed, l.Stage, l.Exception, l.Reason} {
			row = append(row, deadletter.Shown(text))
		}
		row = append(row, l.Redrives)
		if verdicts {
			row = append(row, string(k.Verdict), deadletter.Shown(k.To))
		}
		o.row(row...)
	}
	return o.table.Flush()
}
