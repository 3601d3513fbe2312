package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ankka-flow/cmd/ankka-flow/recordline"
	"ankka-flow/delivery"
	"ankka-flow/delivery/devbroker"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/record"
)

// produceFlags is what `produce` is told.
type produceFlags struct {
	key        string
	keyGiven   bool
	headers    []string
	partition  int32
	raw        bool
	brokerData string
}

func newProduce(a *app) *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE]",
		Short: "Write records to a topic",
		Long: `produce writes a record for each line of FILE, or of stdin. A line is a record as JSON, as
consume prints it: {"key": "k", "value": "v", "headers": [["name", "value"]]}; a value that is a
JSON object stands for its compact text. With --raw, a line is a value.`,
		Example: `  echo '{"key":"c9","value":{"total":7}}' | ankka-flow produce cart-router.in`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.keyGiven = cmd.Flags().Changed("key")
			if len(args) < 1 || len(args) > 2 {
				return misuse("produce takes a topic and, if not stdin, a file: ankka-flow produce TOPIC [FILE]")
			}
			return a.produce(cmd.Context(), &f, args)
		},
	}
	cmd.Flags().StringVarP(&f.key, "key", "k", "", "key of every record that has none")
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "header of every record, NAME=VALUE, behind its own; may be given several times")
	cmd.Flags().Int32VarP(&f.partition, "partition", "p", -1, "partition to write to (default: by the key, as Java does)")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "lines are values")
	cmd.Flags().StringVar(&f.brokerData, "broker-data", defaultBrokerData, "directory of the embedded broker's data")
	return cmd
}

// defaults puts the flags' key and headers on a record.
func (f *produceFlags) defaults(l *recordline.Line, headers []record.Header) {
	if l.Key == nil && f.keyGiven {
		l.Key = []byte(f.key)
	}
	l.Headers = append(l.Headers, headers...)
	l.Partition = f.partition
}

// produceChunk is how many lines are written at once: the broker confirms
// them before more are read, so that what was counted was written.
const produceChunk = 1000

func (a *app) produce(ctx context.Context, f *produceFlags, args []string) error {
	topic := args[0]
	if err := checkTopicName(topic); err != nil {
		return misuse("%w", err)
	}
	var problems []error
	var headers []record.Header
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			problems = append(problems, fmt.Errorf("--header %q: it has the form NAME=VALUE", h))
		}
		headers = append(headers, record.Header{Name: []byte(name), Value: []byte(value)})
	}
	if err := errors.Join(problems...); err != nil {
		return misuse("%w", err)
	}
	in, file := a.stdin, "stdin"
	if len(args) == 2 {
		f, err := os.Open(args[1])
		if err != nil {
			return err
		}
		defer f.Close()
		in, file = f, args[1]
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	client, close, err := a.connect(ctx, f.brokerData)
	if err != nil {
		return err
	}
	defer close()
	if err := checkPartition(ctx, client, topic, f.partition); err != nil {
		return err
	}
	w := newLineWriter(client, topic)
	written, err := a.pump(ctx, f, w, headers, bufio.NewReader(in), file)
	if closeErr := w.close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("%w (%s written to %s)", err, plural(written, "record"), topic)
	}
	fmt.Fprintf(a.stderr, "%s written to %s\n", plural(written, "record"), topic)
	return nil
}

// checkPartition: a record for a partition that does not exist would wait for
// ever.
func checkPartition(ctx context.Context, client *kafka.Client, topic string, partition int32) error {
	if partition < 0 {
		return nil
	}
	topics, err := client.Topics(ctx, topic)
	if err != nil {
		return err
	}
	if err := topics[topic].Err; err != nil {
		return err
	}
	if n := topics[topic].Partitions; partition >= n {
		return misuse("--partition %d: topic %s has partitions 0 to %d", partition, topic, n-1)
	}
	return nil
}

// pump writes the lines chunk by chunk; a line with a mistake ends it, after
// the lines before it were written.
func (a *app) pump(ctx context.Context, f *produceFlags, w *lineWriter, headers []record.Header, in io.Reader, file string) (written int, err error) {
	parse := recordline.Parse
	if f.raw {
		parse = func(text []byte) (*recordline.Line, error) {
			return &recordline.Line{Record: record.Record{Value: text, Timestamp: record.Now}}, nil
		}
	}
	var chunk []*recordline.Line
	flush := func() error {
		err := w.write(ctx, chunk)
		if err == nil {
			written += len(chunk)
		}
		chunk = chunk[:0]
		return err
	}
	var failure error
	readErr := eachLine(in, file, func(l *recordline.Line, err error) bool {
		if err != nil {
			failure = err
			return false
		}
		f.defaults(l, headers)
		if chunk = append(chunk, l); len(chunk) == produceChunk {
			failure = flush()
		}
		return failure == nil && ctx.Err() == nil
	}, parse)
	if len(chunk) > 0 && ctx.Err() == nil {
		failure = errors.Join(failure, flush())
	}
	return written, errors.Join(failure, readErr, ctx.Err())
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// connect reaches the brokers of --brokers, or the embedded broker that keeps
// its data in dir: the one that runs there, or one started for this command.
func (a *app) connect(ctx context.Context, dir string) (*kafka.Client, func(), error) {
	brokers := a.global.brokers
	closeBroker := func() {}
	if len(brokers) == 0 {
		probe, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		address, ok := devbroker.Find(probe, dir)
		if !ok {
			own, err := openForCommand(dir)
			if err != nil {
				return nil, nil, err
			}
			address, closeBroker = own.Address(), own.Close
		}
		brokers = []string{address}
	}
	client, err := kafka.NewClient(kafka.Config{Brokers: brokers, ClientID: "ankka-flow", Logger: a.log.With("event", "kafka")})
	if err != nil {
		closeBroker()
		return nil, nil, misuse("--brokers: %w", err)
	}
	closeAll := func() {
		client.Close()
		closeBroker()
	}
	if err := client.Probe(ctx); err != nil {
		closeAll()
		return nil, nil, err
	}
	return client, closeAll, nil
}

// openForCommand starts the embedded broker for one command, on data that is
// there. Without any there is nothing to reach.
func openForCommand(dir string) (*devbroker.Broker, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, misuse("no broker is named and %s has none: name yours with --brokers (FLOW_BROKERS), or start one here with `ankka-flow broker` or `ankka-flow run`", dir)
	}
	return devbroker.Open(devbroker.Config{Dir: dir, Listen: "127.0.0.1:0"})
}

// lineWriter writes lines to one topic and waits for each confirmation.
type lineWriter struct {
	topic    string
	producer *kafka.Producer
	answers  chan delivery.Event
	id       uint64
}

func newLineWriter(client *kafka.Client, topic string) *lineWriter {
	w := &lineWriter{topic: topic, answers: make(chan delivery.Event, 16)}
	w.producer = client.Produce(kafka.ProducerConfig{WriteTimeout: 30 * time.Second}, func(ev delivery.Event) { w.answers <- ev })
	return w
}

// write returns when every line is confirmed.
func (w *lineWriter) write(ctx context.Context, lines []*recordline.Line) error {
	if len(lines) == 0 {
		return nil
	}
	w.id++
	w.producer.Write(w.id, delivery.TP{}, outsOf(w.topic, lines))
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ev := <-w.answers:
			switch e := ev.(type) {
			case delivery.Written:
				return nil
			case delivery.Refused:
				return errors.New(e.Reason)
			case delivery.Unsettled:
				return fmt.Errorf("whether the last records were written is not known: %s", e.Reason)
			}
		}
	}
}

// outsOf groups runs of lines for the same partition.
func outsOf(topic string, lines []*recordline.Line) []kafka.Out {
	var outs []kafka.Out
	for i, l := range lines {
		if i == 0 || l.Partition != lines[i-1].Partition {
			outs = append(outs, kafka.Out{Topic: topic})
			if l.Partition >= 0 {
				outs[len(outs)-1].Pin = &l.Partition
			}
		}
		last := &outs[len(outs)-1]
		last.Records = append(last.Records, l.Record)
	}
	return outs
}

func (w *lineWriter) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return w.producer.Close(ctx)
}

// writeLines writes a file's lines to a topic, by their keys.
func writeLines(ctx context.Context, client *kafka.Client, topic string, lines []*recordline.Line) error {
	w := newLineWriter(client, topic)
	for _, l := range lines {
		l.Partition = -1 // where it was is not where it goes
	}
	err := w.write(ctx, lines)
	return errors.Join(err, w.close())
}
