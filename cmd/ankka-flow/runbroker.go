package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"ankka-flow/cmd/ankka-flow/config"
	"ankka-flow/delivery"
	"ankka-flow/delivery/devbroker"
	"ankka-flow/delivery/driver"
	"ankka-flow/delivery/kafka"
)

// runBroker is the broker of a run, as the driver sees it: driver.Broker.
type runBroker struct {
	client *kafka.Client
	log    *slog.Logger
	// settings say how inlets read and how outlets are written.
	settings *config.Settings
	timing   *timing
	inputs   map[string]*inputFile
	// embedded is the embedded broker, ours or shared; nil where brokers are
	// named. On it topics may be made, and sessions are short.
	embedded *embedded
	// told has the inlets whose file was written or said not to be.
	told map[string]bool
	// held keeps the name of this supervisor among those of the directory.
	held *heldName
	// named is told the directory of that name; nil: nobody.
	named func(dir string)

	// wantEnds: --until-end was given.
	wantEnds bool
	mu       sync.Mutex
	targets  map[string]map[int32]int64 // inlet to end offsets, once prepared
	plan     *driver.Plan
	prepared *driver.Plan  // the last that Prepare got
	ends     chan struct{} // closed when targets are known
}

// openRunBroker finds or starts the broker of a run.
func (a *app) openRunBroker(ctx context.Context, f *runFlags, s *runSettings, t *timing) (*runBroker, error) {
	b := &runBroker{log: a.log, settings: a.settings, timing: t, inputs: s.inputs, wantEnds: f.untilEnd, ends: make(chan struct{}), told: map[string]bool{}}
	cfg := a.namedBrokers()
	if len(cfg.Brokers) == 0 || f.embedded {
		if len(cfg.Brokers) > 0 {
			return nil, misuse("--embedded and --brokers name two brokers; give one")
		}
		broker, err := a.embeddedBroker(ctx, f.brokerData, f.embedded)
		if err != nil {
			return nil, err
		}
		b.embedded, cfg = broker, broker.config()
	}
	client, err := a.newClient(cfg)
	if err != nil {
		b.close()
		return nil, err
	}
	b.client = client
	return b, nil
}

// newClient is the client of a command.
func (a *app) newClient(cfg kafka.Config) (*kafka.Client, error) {
	cfg.ClientID, cfg.Logger = orElse(a.settings.ClientID, "ankka-flow"), a.log.With("event", "kafka")
	client, err := kafka.NewClient(cfg)
	if err != nil {
		return nil, misuse("--brokers: %w", err)
	}
	return client, nil
}

// embeddedBroker is the directory's embedded broker, started where none runs
// yet.
func (a *app) embeddedBroker(ctx context.Context, dir string, asked bool) (*embedded, error) {
	if !asked {
		if why := container(); why != "" {
			return nil, misuse("no broker is named, and %s, where an embedded one would lose data: name yours with --brokers (FLOW_BROKERS), or ask for it with --embedded", why)
		}
	}
	broker, err := a.openEmbedded(ctx, devbroker.Config{Dir: dir, AnyPort: true})
	if err != nil {
		return nil, err
	}
	if broker.ours() {
		a.log.Info(fmt.Sprintf("embedded at %s, kept in %s, development only", broker.at(), dir), "event", "broker")
	} else {
		a.log.Info(fmt.Sprintf("the embedded one of another command, at %s", broker.at()), "event", "broker")
	}
	return broker, nil
}

// container says why this looks like a place for a real broker, or "".
func container() string {
	switch {
	case os.Getpid() == 1:
		return "this is process 1 of a container"
	case os.Getenv("KUBERNETES_SERVICE_HOST") != "":
		return "this runs in Kubernetes"
	case launchedByInit && (isThere("/.dockerenv") || isThere("/run/.containerenv")):
		return "process 1 of a container has launched this"
	}
	return ""
}

// launchedByInit: an entrypoint may have something in front of us, as `docker run --init`,
// tini and a shell are. A shell in a container that is a place to develop is launched
// otherwise, and what it launches has another parent than process 1.
var launchedByInit = os.Getppid() == 1

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (b *runBroker) close() {
	if b.client != nil {
		b.client.Close()
	}
	if b.embedded != nil {
		b.embedded.close()
	}
	b.held.release()
}

// Prepare implements driver.Broker.
func (b *runBroker) Prepare(ctx context.Context, plan *driver.Plan) error {
	b.mu.Lock()
	b.prepared = plan
	b.mu.Unlock()
	if b.held == nil && container() == "" {
		held, err := holdName(runDir, plan.Streamlet)
		if err != nil {
			b.log.Warn(fmt.Sprintf("%v; a start after kill -9 will wait for the session timeout", err), "event", "state")
		}
		if b.held = held; held != nil && b.named != nil {
			b.named(held.dir)
		}
	}
	steps := []func(context.Context, *driver.Plan) error{b.makeTopics, b.fill}
	if b.wantEnds {
		steps = append(steps, b.noteEnds)
	}
	for _, step := range steps {
		if err := b.persist(ctx, func(ctx context.Context) error { return step(ctx, plan) }); err != nil {
			return err
		}
	}
	return nil
}

// persist tries a step until it succeeds, ctx ends, or it fails for good. A
// broker that is away is said at once and tried for ever.
func (b *runBroker) persist(ctx context.Context, step func(context.Context) error) error {
	said := ""
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, b.timing.reconnectMax) {
		attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := step(attempt)
		cancel()
		var final *finalError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &final):
			return final
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if text := err.Error(); text != said {
			said = text
			b.log.Log(ctx, troubleLevel(err), text+"; trying again", "event", "broker")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// troubleLevel is that of trouble which is tried again: an error where trying does
// not help before a person has acted.
func troubleLevel(err error) slog.Level {
	if kafka.NeedsPerson(err) {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// finalError is one that trying again does not mend.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// makeTopics makes the missing topics of an embedded broker. Elsewhere it only
// says which are missing: a topic of a real cluster is not made by its reader.
func (b *runBroker) makeTopics(ctx context.Context, plan *driver.Plan) error {
	var names []string
	for _, in := range plan.Inlets {
		names = append(names, in.Topic)
	}
	for _, out := range plan.Outlets {
		names = append(names, out.Topic)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	names = slices.Compact(names) // ports may share a topic, a request may not name one twice
	topics, err := b.client.Topics(ctx, names...)
	if err != nil {
		return err
	}
	if err := b.makeDeadLetters(ctx, plan, topics); err != nil {
		return err
	}
	var missing []string
	for _, name := range names {
		if topics[name].Err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if b.embedded == nil {
		for _, name := range missing {
			if kafka.NeedsPerson(topics[name].Err) && slices.ContainsFunc(plan.Inlets, func(in driver.PlannedInlet) bool { return in.Topic == name }) {
				continue // the inlet's consumer says it, once
			}
			b.log.Log(ctx, troubleLevel(topics[name].Err), topics[name].Err.Error()+"; it is waited for", "event", "topics")
		}
		return nil
	}
	return createTopics(ctx, b.client, b.log, missing...)
}

// makeDeadLetters makes the topics of dead letters that are missing, on any cluster:
// at the start, for at the first failure it would be too late to find that it cannot
// be made. They leave topics.
func (b *runBroker) makeDeadLetters(ctx context.Context, plan *driver.Plan, topics map[string]kafka.TopicInfo) error {
	for _, out := range plan.Outlets {
		var missing *kafka.CodeError
		if out.Replicas == 0 || !errors.As(topics[out.Topic].Err, &missing) || missing.Code != noSuchTopic {
			continue
		}
		replicas := out.Replicas
		if b.embedded != nil {
			replicas = 1
		}
		err := b.client.CreateTopics(ctx, []kafka.NewTopic{{Name: out.Topic, Partitions: 1, Replicas: replicas}})
		if err != nil {
			var refused *kafka.CodeError
			if errors.As(err, &refused) && refusedForGood[refused.Code] {
				return &finalError{fmt.Errorf("the topic of dead letters cannot be made with errors.%s %d: %w", driver.DeadLetterReplicas, replicas, err)}
			}
			return err
		}
		topics[out.Topic] = kafka.TopicInfo{Partitions: 1}
		b.log.Info(fmt.Sprintf("created %s for dead letters (1 partition, replication factor %d)", out.Topic, replicas), "event", "topics")
	}
	return nil
}

// noSuchTopic is Kafka's code for a topic that is missing.
const noSuchTopic = 3

// createTopics makes topics on an embedded broker and says so. What the broker
// will refuse again is a *finalError.
func createTopics(ctx context.Context, client *kafka.Client, log *slog.Logger, names ...string) error {
	var wanted []kafka.NewTopic
	for _, name := range names {
		wanted = append(wanted, kafka.NewTopic{Name: name, Partitions: devbroker.DefaultPartitions, Replicas: 1})
	}
	if err := client.CreateTopics(ctx, wanted); err != nil {
		var refused *kafka.CodeError
		if errors.As(err, &refused) && refusedForGood[refused.Code] {
			return &finalError{err}
		}
		return err
	}
	log.Info(fmt.Sprintf("created %s (%d partitions)", strings.Join(names, ", "), devbroker.DefaultPartitions), "event", "topics")
	return nil
}

// refusedForGood are the codes by which a broker refuses to make a topic as it
// is asked for, so that the same question gets the same answer.
var refusedForGood = map[int16]bool{
	17: true, // the name is not allowed, or one that differs in . and _ exists
	35: true, // the version of the request
	37: true, // the number of partitions
	38: true, // the number of replicas
	40: true, // a setting
	42: true, // the request itself
	44: true, // the cluster's policy
}

// fill writes the files of --input into topics that are empty.
func (b *runBroker) fill(ctx context.Context, plan *driver.Plan) error {
	for _, in := range plan.Inlets {
		file := b.inputs[in.Port]
		if file == nil || len(file.lines) == 0 {
			continue
		}
		empty, err := b.isEmpty(ctx, in.Topic)
		if err != nil {
			return err
		}
		if !empty && b.told[in.Port] {
			continue
		}
		b.told[in.Port] = true
		if !empty {
			b.log.Info(fmt.Sprintf("%s has records already; %s is not written to it again", in.Topic, file.path), "event", "input")
			continue
		}
		if err := writeLines(ctx, b.client, in.Topic, file.lines); err != nil {
			// Part of it may have been written: a second try would write that
			// twice, or find the topic filled and leave the rest out.
			return &finalError{fmt.Errorf("writing %s to %s: %w", file.path, in.Topic, err)}
		}
		b.log.Info(fmt.Sprintf("%d records of %s written to %s", len(file.lines), file.path, in.Topic), "event", "input")
	}
	return nil
}

// isEmpty: no record was ever written, or none is left.
func (b *runBroker) isEmpty(ctx context.Context, topic string) (bool, error) {
	starts, err := b.client.ListOffsets(ctx, topic, kafka.Earliest)
	if err != nil {
		return false, err
	}
	ends, err := b.client.ListOffsets(ctx, topic, kafka.Latest)
	if err != nil {
		return false, err
	}
	for partition, end := range ends {
		if end > starts[partition] {
			return false, nil
		}
	}
	return true, nil
}

// instance is an inlet's group.instance.id: the configured one, or that of the
// held name; "" where there is neither. Two inlets in one group are two members.
func (b *runBroker) instance(in driver.PlannedInlet, configured string) string {
	instance := orElse(configured, b.held.instance())
	b.mu.Lock()
	plan := b.prepared
	b.mu.Unlock()
	if instance != "" && plan != nil && shared(plan, in) {
		instance += "." + in.Port
	}
	return instance
}

// Consume implements driver.Broker.
func (b *runBroker) Consume(in driver.PlannedInlet, now func() time.Duration, sink func(delivery.Event)) driver.Inlet {
	c := b.settings.Inlet(in.Port)
	session := c.SessionTimeout
	if session == 0 && b.embedded != nil {
		session = devbroker.MinSession
	}
	return b.client.Consume(kafka.Inlet{
		Name: in.Port, Topic: in.Topic, Group: in.Group, ClientID: orElse(c.ClientID, in.ClientID),
		InstanceID: b.instance(in, c.InstanceID), Assignors: c.Assignors, StartLatest: c.StartLatest,
		ReadUncommitted: c.ReadUncommitted, Reset: c.Reset,
		LeaveStatic: c.InstanceID == "", SessionTimeout: session, Now: now,
	}, sink)
}

// Produce implements driver.Broker.
func (b *runBroker) Produce(sink func(delivery.Event)) driver.Producer {
	return b.client.Produce(kafka.ProducerConfig{
		WriteTimeout: b.timing.write, MaxBatchBytes: b.settings.Producer.MaxBatchBytes, Compression: b.settings.Producer.Compression,
	}, sink)
}
