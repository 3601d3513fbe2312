package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"ankka-flow/delivery/devbroker"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/kafka/names"
)

// adminFlags is what the commands of `topics` and `groups` are told.
type adminFlags struct {
	partitions, replicas countFlag
	yes, json            bool
	brokerData           string
}

// children adds commands to their family, with the flag that all have.
func (f *adminFlags) children(parent *cobra.Command, commands ...*cobra.Command) {
	parent.PersistentFlags().StringVar(&f.brokerData, "broker-data", defaultBrokerData, usage("broker-data"))
	parent.AddCommand(commands...)
}

func newTopics(a *app) *cobra.Command {
	var f adminFlags
	parent := &cobra.Command{
		Use:     "topics",
		Short:   "List, describe, create and delete topics",
		Example: "  ankka-flow topics create orders -p 6",
		RunE:    noCommand,
	}
	list := &cobra.Command{
		Use: "list", Short: "Print every topic, a line each",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse("topics list takes no arguments, but there is %q", args[0])
			}
			return a.administer(cmd.Context(), &f, (*connection).listTopics)
		},
	}
	list.Flags().BoolVar(&f.json, "json", false, "as JSON, a line each")
	describe := &cobra.Command{
		Use: "describe TOPIC...", Short: "Print the partitions of topics: where they are, and their first and next offsets",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onTopics(cmd, &f, args, (*connection).describeTopics)
		},
	}
	describe.Flags().BoolVar(&f.json, "json", false, "as JSON, a line for each topic")
	create := &cobra.Command{
		Use: "create TOPIC...", Short: "Make topics that do not exist",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.partitions > math.MaxInt32:
				return misuse("--partitions %d: it is at most %d", f.partitions, math.MaxInt32)
			case f.replicas > math.MaxInt16:
				return misuse("--replicas %d: it is at most %d", f.replicas, math.MaxInt16)
			}
			return a.onTopics(cmd, &f, args, (*connection).createTopics)
		},
	}
	create.Flags().VarP(&f.partitions, "partitions", "p", "partitions of each (default: the broker's)")
	create.Flags().VarP(&f.replicas, "replicas", "r", "replicas of each partition (default: the broker's)")
	remove := &cobra.Command{
		Use: "delete TOPIC... --yes", Short: "Delete topics and their records",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !f.yes {
				return misuse("topics delete deletes every record of %s, for good: say so with --yes", strings.Join(args, ", "))
			}
			return a.onTopics(cmd, &f, args, (*connection).deleteTopics)
		},
	}
	remove.Flags().BoolVar(&f.yes, "yes", false, "delete them; without it nothing is done")
	f.children(parent, list, describe, create, remove)
	return parent
}

// onTopics runs a command on the topics that are its arguments.
func (a *app) onTopics(cmd *cobra.Command, f *adminFlags, topics []string, do func(*connection, context.Context, *output, []string) error) error {
	if len(topics) == 0 {
		return misuse("%s takes a topic or several: %s", strings.TrimPrefix(cmd.CommandPath(), "ankka-flow "), cmd.UseLine())
	}
	seen := map[string]bool{}
	for _, topic := range topics {
		if err := names.CheckTopic(topic); err != nil {
			return misuse("%w", err)
		}
		if seen[topic] {
			return misuse("topic %s is named twice", topic)
		}
		seen[topic] = true
	}
	return a.administer(cmd.Context(), f, func(c *connection, ctx context.Context, out *output) error {
		return do(c, ctx, out, topics)
	})
}

// output is where a command puts what it found: rows or JSON lines to stdout,
// what it did to stderr.
type output struct {
	*adminFlags
	app   *app
	table *tabwriter.Writer
}

// administer runs a command on the brokers until a signal. The table is aligned
// at its end, so that it is either whole or not there.
func (a *app) administer(ctx context.Context, f *adminFlags, do func(*connection, context.Context, *output) error) error {
	interrupts := watchInterrupts(ctx)
	defer interrupts.stop()
	err := func() error {
		conn, err := a.connect(interrupts.first, f.brokerData)
		if err != nil {
			return err
		}
		defer conn.close()
		conn.embedded.whenLost(interrupts.cancel)
		out := &output{adminFlags: f, app: a, table: tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)}
		err = do(conn, interrupts.first, out)
		if lost := conn.embedded.failure(); lost != nil {
			return lost
		}
		if err != nil {
			return err
		}
		return out.table.Flush()
	}()
	if err != nil && interrupts.first.Err() != nil && interrupts.number.Load() != 0 {
		return interrupts.exit()
	}
	return err
}

// row adds a line to the table; numbers below 0 are not known.
func (o *output) row(cells ...any) {
	var line []string
	for _, cell := range cells {
		text := fmt.Sprint(cell)
		if _, isText := cell.(string); text == "" || !isText && strings.HasPrefix(text, "-") {
			text = "-"
		}
		line = append(line, text)
	}
	fmt.Fprintln(o.table, strings.Join(line, "\t"))
}

// line writes a value as a JSON line.
func (o *output) line(value any) error { return json.NewEncoder(o.app.stdout).Encode(value) }

// known is a number for JSON, null where it is not known.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func (c *connection) listTopics(ctx context.Context, out *output) error {
	topics, err := c.client.DescribeTopics(ctx)
	if err != nil {
		return err
	}
	if !out.json {
		out.row("TOPIC", "PARTITIONS", "REPLICAS")
	}
	for _, t := range topics {
		partitions, replicas := int64(len(t.Partitions)), int64(-1)
		if t.Err != nil {
			partitions = -1
		} else if len(t.Partitions) > 0 {
			replicas = int64(len(t.Partitions[0].Replicas))
		}
		if out.json {
			err = out.line(struct {
				Topic      string `json:"topic"`
				Partitions *int64 `json:"partitions"`
				Replicas   *int64 `json:"replicas"`
			}{t.Name, known(partitions), known(replicas)})
			if err != nil {
				return err
			}
			continue
		}
		out.row(t.Name, partitions, replicas)
	}
	return nil
}

// describedPartition is a partition as JSON; null: not known.
type describedPartition struct {
	Partition int32   `json:"partition"`
	Leader    *int64  `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	InSync    []int32 `json:"in_sync"`
	Start     *int64  `json:"start"`
	End       *int64  `json:"end"`
}

func (c *connection) describeTopics(ctx context.Context, out *output, names []string) error {
	topics, err := c.existing(ctx, names)
	if err != nil {
		return err
	}
	if !out.json {
		out.row("TOPIC", "PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "START", "END")
	}
	for _, t := range topics {
		starts, err := c.offsetsAt(ctx, &t, kafka.Earliest)
		if err != nil {
			return err
		}
		ends, err := c.offsetsAt(ctx, &t, kafka.Latest)
		if err != nil {
			return err
		}
		described := []describedPartition{}
		for _, p := range t.Partitions {
			start, end := at(starts, p.Partition), at(ends, p.Partition)
			if !out.json {
				out.row(t.Name, p.Partition, p.Leader, numbers(p.Replicas), numbers(p.InSync), start, end)
			}
			described = append(described, describedPartition{p.Partition, known(int64(p.Leader)), p.Replicas, p.InSync, known(start), known(end)})
		}
		if out.json {
			err = out.line(struct {
				Topic      string               `json:"topic"`
				Partitions []describedPartition `json:"partitions"`
			}{t.Name, described})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// offsetsAt lists a topic's offsets. There are none while a partition has no
// leader: what is known of such a topic is what its reader came for.
func (c *connection) offsetsAt(ctx context.Context, t *kafka.TopicDetail, where int64) (map[int32]int64, error) {
	if !t.HasLeaders() {
		return nil, nil
	}
	return c.client.ListOffsets(ctx, t.Name, where)
}

// at is an offset that was listed; -1: none was.
func at(offsets map[int32]int64, partition int32) int64 {
	if offset, ok := offsets[partition]; ok {
		return offset
	}
	return -1
}

func numbers(list []int32) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, strconv.Itoa(int(n)))
	}
	return strings.Join(texts, ",")
}

// existing describes topics, and is an error for each that does not exist.
func (c *connection) existing(ctx context.Context, names []string) ([]kafka.TopicDetail, error) {
	topics, err := c.client.DescribeTopics(ctx, names...)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, t := range topics {
		if isUnknown(t.Err) {
			t.Err = c.missing(ctx, "topic", t.Name, c.client.TopicNames)
		}
		problems = append(problems, t.Err)
	}
	return topics, errors.Join(problems...)
}

func isUnknown(err error) bool {
	var code *kafka.CodeError
	return errors.As(err, &code) && code.Code == kafka.UnknownTopic
}

// missing is the error for a topic or a group that does not exist: where it was
// looked for, and which is meant perhaps.
func (c *connection) missing(ctx context.Context, what, name string, list func(context.Context) ([]string, error)) error {
	hint := ""
	if all, err := list(ctx); err == nil { // else the error at hand has to do
		hint = didYouMean(name, all)
	}
	return fmt.Errorf("the broker at %s has no such %s: %s%s", strings.Join(c.brokers, ","), what, name, hint)
}

// createTopics makes topics, none of them where one exists: whoever says how
// many partitions a topic shall have must not be left with another number.
func (c *connection) createTopics(ctx context.Context, out *output, names []string) error {
	topics, err := c.client.Topics(ctx, names...)
	if err != nil {
		return err
	}
	var wanted []kafka.NewTopic
	var problems []error
	for _, name := range names {
		info := topics[name]
		switch {
		case info.Err == nil:
			problems = append(problems, fmt.Errorf("topic %s exists, with %s; nothing was made", name, plural(int(info.Partitions), "partition")))
		case !isUnknown(info.Err):
			problems = append(problems, info.Err)
		}
		topic := kafka.NewTopic{Name: name, Partitions: int32(out.partitions), Replicas: int16(out.replicas)}
		if c.embedded != nil && topic.Partitions == 0 {
			topic.Partitions = devbroker.DefaultPartitions
		}
		wanted = append(wanted, topic)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if err := c.client.CreateTopics(ctx, wanted); err != nil {
		return err
	}
	if topics, err = c.client.Topics(ctx, names...); err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(out.app.stderr, "created %s (%s)\n", name, plural(int(topics[name].Partitions), "partition"))
	}
	return nil
}

// deleteTopics deletes topics, none of them where one does not exist.
func (c *connection) deleteTopics(ctx context.Context, out *output, names []string) error {
	if _, err := c.existing(ctx, names); err != nil {
		return err
	}
	if err := c.client.DeleteTopics(ctx, names...); err != nil {
		return err
	}
	fmt.Fprintf(out.app.stderr, "deleted %s\n", strings.Join(names, ", "))
	return nil
}
