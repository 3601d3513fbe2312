package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ankka-flow/delivery/devbroker"
	"ankka-flow/delivery/kafka/names"
)

// defaultBrokerData is where the embedded broker keeps its data, under the
// working directory.
const defaultBrokerData = ".ankka-flow/broker"

func newBroker(a *app) *cobra.Command {
	var listen, data string
	var topics []string
	var reset bool
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run the embedded broker alone, for development",
		Long: `broker runs the embedded Kafka broker until Ctrl-C. Its address is kept beside its
data, so that run, produce and consume in the same directory find it.`,
		Example: "  ankka-flow broker --topic orders:3",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse("broker takes no arguments, but there is %q", args[0])
			}
			if len(a.global.brokers) > 0 {
				return misuse("broker starts the embedded broker, while --brokers (FLOW_BROKERS) names another; leave that out")
			}
			if !isListenAddress(listen) {
				return misuse("--listen %q: it is host:port, such as %s", listen, devbroker.DefaultListen)
			}
			wanted, err := parseTopics(topics)
			if err != nil {
				return err
			}
			return a.runBroker(cmd.Context(), devbroker.Config{Dir: data, Listen: listen}, wanted, reset)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", devbroker.DefaultListen, "address to listen on, host:port; port 0 takes any")
	cmd.Flags().StringVar(&data, "data", defaultBrokerData, "directory that keeps its data")
	cmd.Flags().StringArrayVar(&topics, "topic", nil, "topic to make, NAME or NAME:PARTITIONS; may be given several times")
	cmd.Flags().BoolVar(&reset, "reset", false, "remove the data first")
	return cmd
}

// isListenAddress: host:port, with a port that is one.
func isListenAddress(listen string) bool {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// newTopic is a topic of --topic.
type newTopic struct {
	name       string
	partitions int32
	counted    bool // their number was given
}

func parseTopics(given []string) ([]newTopic, error) {
	var topics []newTopic
	for _, g := range given {
		name, count, found := strings.Cut(g, ":")
		t := newTopic{name: name, partitions: devbroker.DefaultPartitions}
		if found {
			n, err := strconv.ParseInt(count, 10, 32)
			if err != nil || n < 1 || n > 10_000 {
				return nil, misuse("--topic %s: the number of partitions is from 1 to 10000", g)
			}
			t.partitions, t.counted = int32(n), true
		}
		if err := names.CheckTopic(name); err != nil {
			return nil, misuse("--topic %s: %w", g, err)
		}
		topics = append(topics, t)
	}
	return topics, nil
}

func (a *app) runBroker(ctx context.Context, cfg devbroker.Config, topics []newTopic, reset bool) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if reset {
		if err := devbroker.Reset(cfg.Dir); err != nil {
			return brokerFailure(err)
		}
	}
	broker, err := devbroker.Open(cfg)
	if err != nil {
		return brokerFailure(err)
	}
	defer func() {
		broker.Close()
		a.log.Info("ended; its data stays in "+cfg.Dir, "event", "broker")
	}()
	if err := a.makeTopics(broker, topics); err != nil {
		return err
	}
	a.log.Info(fmt.Sprintf("embedded at %s, kept in %s, development only; Ctrl-C ends it", broker.Address(), cfg.Dir), "event", "broker")
	<-ctx.Done()
	return nil
}

// makeTopics makes the topics of --topic and says which.
func (a *app) makeTopics(broker *devbroker.Broker, topics []newTopic) error {
	for _, t := range topics {
		has := broker.Partitions(t.name)
		if has == 0 {
			if err := broker.CreateTopic(t.name, t.partitions); err != nil {
				return fmt.Errorf("--topic %s: %w", t.name, err)
			}
			a.log.Info(fmt.Sprintf("created %s (%s)", t.name, plural(int(t.partitions), "partition")), "event", "topics")
		} else if t.counted && has != t.partitions {
			a.log.Warn(fmt.Sprintf("%s has %s already; --topic %s:%d changes nothing", t.name, plural(int(has), "partition"), t.name, t.partitions), "event", "topics")
		}
	}
	return nil
}

// brokerFailure adds what to do about a directory that cannot be used.
func brokerFailure(err error) error {
	var dir *devbroker.DirError
	if errors.As(err, &dir) {
		return fmt.Errorf("%w; name another directory with --data", err)
	}
	return err
}
