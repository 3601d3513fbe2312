package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ankka-flow/cmd/ankka-flow/recordline"
	"ankka-flow/delivery"
	"ankka-flow/delivery/devbroker"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/kafka/names"
	"ankka-flow/delivery/record"
)

// produceFlags is what `produce` is told.
type produceFlags struct {
	key        string
	keyGiven   bool
	headers    []string
	partition  partitionFlag
	raw        bool
	brokerData string
}

func newProduce(a *app) *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE]",
		Short: "Write records to a topic",
		Long: `produce writes a record for each line of FILE, or of stdin, as it comes. A line is a record as
JSON, as consume prints it: {"key": "k", "value": "v", "headers": [["name", "value"]]}; a value that
is a JSON object stands for its compact text, one that is no text is given as "value_base64". The
timestamp is kept; "topic", "partition" and "offset" say where a record was read and are ignored:
the partition comes from the key, or from --partition. Empty lines are skipped.

With --raw, a line is a value, byte for byte: what stands between two newlines, also if that is nothing.

On the embedded broker, a topic that is missing is made. Ctrl-C ends the reading and what was read is
written, which is exit code 0 where a person types and else 130, for there may be more; a second
Ctrl-C ends at once.`,
		Example: `  echo '{"key":"c9","value":{"total":7}}' | ankka-flow produce cart-router.in`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.keyGiven = cmd.Flags().Changed("key")
			if len(args) < 1 || len(args) > 2 {
				return misuse("produce takes a topic and, if not stdin, a file: ankka-flow produce TOPIC [FILE]")
			}
			return a.produce(cmd.Context(), &f, args)
		},
	}
	f.partition = anyPartition
	cmd.Flags().StringVarP(&f.key, "key", "k", "", "key of every record that has none")
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "header of every record, NAME=VALUE, behind its own; may be given several times")
	cmd.Flags().VarP(&f.partition, "partition", "p", "partition to write to (default: by the key, as Java does)")
	cmd.Flags().BoolVar(&f.raw, "raw", false, "lines are values, byte for byte")
	cmd.Flags().StringVar(&f.brokerData, "broker-data", defaultBrokerData, usage("broker-data"))
	return cmd
}

// defaults puts the flags' key and headers on a record.
func (f *produceFlags) defaults(l *recordline.Line, headers []record.Header) {
	if l.Key == nil && f.keyGiven {
		l.Key = []byte(f.key)
	}
	l.Headers = append(l.Headers, headers...)
	l.Partition = int32(f.partition) // what the line says is where it was read
}

// parse reads a line as the flags say.
func (f *produceFlags) parse() func([]byte) (*recordline.Line, error) {
	if !f.raw {
		return recordline.Parse
	}
	return func(text []byte) (*recordline.Line, error) {
		return &recordline.Line{Record: record.Record{Value: text, Timestamp: record.Now}}, nil
	}
}

func (a *app) produce(ctx context.Context, f *produceFlags, args []string) error {
	topic := args[0]
	if err := names.CheckTopic(topic); err != nil {
		return misuse("%w", err)
	}
	headers, err := parseHeaders(f.headers)
	if err != nil {
		return err
	}
	in, file := a.stdin, "stdin"
	if len(args) == 2 {
		f, err := openInput(args[1])
		if err != nil {
			return err
		}
		defer f.Close()
		in, file = f, args[1]
	}
	interrupts := watchInterrupts(ctx)
	defer interrupts.stop()
	conn, err := a.connect(interrupts.first, f.brokerData)
	if err == nil {
		defer conn.close()
		conn.embedded.whenLost(interrupts.cancel)
		err = conn.toWrite(interrupts.first, topic, f.partition)
	}
	if interrupts.first.Err() != nil {
		return interrupts.exit() // before anything was read
	}
	if err != nil {
		return err
	}
	p := &pump{w: newLineWriter(conn.client, topic), flags: f, headers: headers}
	whole, err := p.run(interrupts, readLines(in, file, f.raw, f.parse()))
	if closeErr := p.w.close(); err == nil {
		err = closeErr
	}
	if lost := conn.embedded.failure(); lost != nil {
		return fmt.Errorf("%w (%s written to %s)", lost, plural(p.written, "record"), topic)
	}
	if interrupts.second.Err() != nil {
		return interrupts.exit()
	}
	if err != nil {
		return fmt.Errorf("%w (%s written to %s)", err, plural(p.written, "record"), topic)
	}
	fmt.Fprintf(a.stderr, "%s written to %s\n", plural(p.written, "record"), topic)
	if !whole && !isTerminalInput(in) {
		return interrupts.exit() // the rest of the input is not written
	}
	return nil // also after Ctrl-C where somebody types: so it is ended
}

func parseHeaders(given []string) ([]record.Header, error) {
	var problems []error
	var headers []record.Header
	for _, h := range given {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			problems = append(problems, fmt.Errorf("--header %q: it has the form NAME=VALUE", h))
		}
		headers = append(headers, record.Header{Name: []byte(name), Value: []byte(value)})
	}
	if err := errors.Join(problems...); err != nil {
		return nil, misuse("%w", err)
	}
	return headers, nil
}

const (
	// produceChunk is how many lines are written at once at most: the broker
	// confirms them before more are, so that what was counted was written.
	produceChunk = 1000
	// produceChunkBytes bounds the values that wait to be written.
	produceChunkBytes = 8 << 20
	// produceLinger is how long a line waits for more to come with it.
	produceLinger = 20 * time.Millisecond
)

// pump writes lines as they come.
type pump struct {
	w       *lineWriter
	flags   *produceFlags
	headers []record.Header
	chunk   []*recordline.Line
	bytes   int
	written int
}

// run writes until the input ends, and says whether it was read as a whole. A
// line with a mistake ends it, after the lines before it were written; so does
// the first interrupt. The second ends also the writing.
func (p *pump) run(interrupts *interrupts, lines <-chan inputLine) (whole bool, err error) {
	for {
		var linger <-chan time.Time
		if len(p.chunk) > 0 {
			linger = time.After(produceLinger)
		}
		select {
		case l, more := <-lines:
			switch {
			case !more:
				return true, p.flush(interrupts.second)
			case l.err != nil:
				return false, errors.Join(p.flush(interrupts.second), l.err)
			}
			p.take(l.line)
			if len(p.chunk) < produceChunk && p.bytes < produceChunkBytes {
				continue
			}
			err = p.flush(interrupts.second)
		case <-linger:
			err = p.flush(interrupts.second)
		case <-interrupts.first.Done():
			return p.rest(interrupts.second, lines)
		}
		if err != nil {
			return false, err
		}
	}
}

// rest writes what was read before the interrupt.
func (p *pump) rest(ctx context.Context, lines <-chan inputLine) (whole bool, err error) {
	for {
		select {
		case l, more := <-lines:
			if more && l.err == nil {
				p.take(l.line)
				continue
			}
			return !more, errors.Join(p.flush(ctx), l.err)
		default:
			return false, p.flush(ctx)
		}
	}
}

func (p *pump) take(l *recordline.Line) {
	p.flags.defaults(l, p.headers)
	p.chunk = append(p.chunk, l)
	p.bytes += len(l.Key) + len(l.Value)
}

func (p *pump) flush(ctx context.Context) error {
	err := p.w.write(ctx, p.chunk)
	if err == nil {
		p.written += len(p.chunk)
	}
	p.chunk, p.bytes = p.chunk[:0], 0
	return err
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// connection is a command's way to the brokers.
type connection struct {
	client *kafka.Client
	// embedded is the embedded broker; nil where brokers are named.
	embedded *embedded
	// brokers are where it is, for messages.
	brokers []string
	log     *slog.Logger
	// flags are those by which another command reaches them.
	flags string
}

// connect reaches the brokers of --brokers, or the embedded broker that keeps
// its data in dir: the one that runs there, or one started for this command.
func (a *app) connect(ctx context.Context, dir string) (*connection, error) {
	conn := &connection{brokers: a.settings.Brokers, log: a.log}
	cfg := a.namedBrokers()
	if len(cfg.Brokers) == 0 {
		var err error
		if conn.embedded, err = a.embeddedForCommand(ctx, dir); err != nil {
			return nil, err
		}
		cfg = conn.embedded.config()
		conn.brokers = cfg.Brokers
	}
	client, err := a.newClient(cfg)
	if err != nil {
		conn.close()
		return nil, err
	}
	conn.client, conn.flags = client, a.connectFlags(conn.embedded)
	if err := client.Probe(ctx); err != nil {
		conn.close()
		return nil, err
	}
	return conn, nil
}

// embeddedForCommand is the embedded broker for one command: shared, or started
// on data that is there. Without any there is nothing to reach.
func (a *app) embeddedForCommand(ctx context.Context, dir string) (*embedded, error) {
	find, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	if at, ok := devbroker.Find(find, dir); ok {
		return a.shareEmbedded(dir, at), nil
	}
	if !devbroker.HasData(dir) {
		return nil, misuse("no broker is named and %s has none: name yours with --brokers (FLOW_BROKERS), or start one here with `ankka-flow broker` or `ankka-flow run`", dir)
	}
	return a.openEmbedded(ctx, devbroker.Config{Dir: dir, Listen: "127.0.0.1:0"})
}

func (c *connection) close() {
	if c.client != nil {
		c.client.Close()
	}
	if c.embedded != nil {
		c.embedded.close()
	}
}

// toWrite makes sure that there are the topic and the partition: a record for
// one that does not exist would wait for ever. On the embedded broker it makes
// the topic.
func (c *connection) toWrite(ctx context.Context, topic string, partition partitionFlag) error {
	info, err := c.topic(ctx, topic)
	if errors.Is(err, errNoTopic) && c.embedded != nil {
		if err := createTopics(ctx, c.client, c.log, topic); err != nil {
			return err
		}
		info, err = c.topic(ctx, topic)
	}
	switch {
	case errors.Is(err, errNoTopic):
		return c.noTopic(ctx, topic)
	case err != nil:
		return err
	}
	return partition.check(topic, info.Partitions)
}

// toRead makes sure that the topic exists.
func (c *connection) toRead(ctx context.Context, topic string) error {
	_, err := c.topic(ctx, topic)
	if errors.Is(err, errNoTopic) {
		return c.noTopic(ctx, topic)
	}
	return err
}

// errNoTopic says that the brokers know no such topic.
var errNoTopic = errors.New("no such topic")

func (c *connection) topic(ctx context.Context, topic string) (kafka.TopicInfo, error) {
	topics, err := c.client.Topics(ctx, topic)
	if err != nil {
		return kafka.TopicInfo{}, err
	}
	info := topics[topic]
	var code *kafka.CodeError
	if errors.As(info.Err, &code) && code.Code == kafka.UnknownTopic {
		return info, errNoTopic
	}
	return info, info.Err
}

// noTopic is the error for a topic that does not exist: where it was looked
// for, which is meant perhaps, and how it is made.
func (c *connection) noTopic(ctx context.Context, topic string) error {
	where, making := "at "+strings.Join(c.brokers, ","), strings.TrimSpace("ankka-flow topics create "+topic+" "+c.flags)
	if c.embedded != nil {
		where = fmt.Sprintf("at %s, kept in %s,", c.embedded.at(), c.embedded.dir)
	}
	hint := ";"
	if known, err := c.client.TopicNames(ctx); err == nil { // else the error at hand has to do
		if hint = didYouMean(topic, known); hint == "" {
			hint = ";"
		}
	}
	return fmt.Errorf("the broker %s has no such topic: %s%s `%s` makes it", where, topic, hint, making)
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

// errUnconfirmed says that nobody waits any longer for the confirmation.
var errUnconfirmed = errors.New("the broker has not confirmed the last records; they may have been written")

// write returns when every line is confirmed.
func (w *lineWriter) write(ctx context.Context, lines []*recordline.Line) error {
	if len(lines) == 0 {
		return nil
	}
	return w.send(ctx, outsOf(w.topic, lines))
}

// send returns when every record is confirmed.
func (w *lineWriter) send(ctx context.Context, outs []kafka.Out) error {
	w.id++
	w.producer.Write(w.id, delivery.TP{}, outs)
	for {
		select {
		case <-ctx.Done():
			return errUnconfirmed
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
