package main

import (
	"context"
	"fmt"
	"net"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ankka-flow/delivery/devbroker"
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
			if _, _, err := net.SplitHostPort(listen); err != nil {
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

// newTopic is a topic of --topic.
type newTopic struct {
	name       string
	partitions int32
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
			t.partitions = int32(n)
		}
		if err := checkTopicName(name); err != nil {
			return nil, misuse("--topic %s: %w", g, err)
		}
		topics = append(topics, t)
	}
	return topics, nil
}

// checkTopicName is Kafka's rule for topic names.
func checkTopicName(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return fmt.Errorf("%q is not a topic's name (1 to 249 characters, not . or ..)", name)
	}
	for _, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
		if !ok {
			return fmt.Errorf("%q is not a topic's name: it has %q (letters, digits, . _ and - are allowed)", name, r)
		}
	}
	return nil
}

func (a *app) runBroker(ctx context.Context, cfg devbroker.Config, topics []newTopic, reset bool) error {
	if reset {
		if err := devbroker.Reset(cfg.Dir); err != nil {
			return err
		}
	}
	broker, err := devbroker.Open(cfg)
	if err != nil {
		return err
	}
	defer broker.Close()
	for _, t := range topics {
		if err := broker.CreateTopic(t.name, t.partitions); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	a.log.Info(fmt.Sprintf("embedded at %s, kept in %s, development only; Ctrl-C ends it", broker.Address(), cfg.Dir), "event", "broker")
	<-ctx.Done()
	return nil
}
