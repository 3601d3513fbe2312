package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cluster is the Kafka of three brokers, by way of scripts/kafka.
type cluster struct {
	script string
	run    string // KAFKA_RUN
	own    bool   // started here, so ended here
}

// names of the brokers, as scripts/kafka gives them.
var brokerNames = []string{"1", "2", "3"}

// tool is scripts/kafka with arguments.
func (c *cluster) tool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.script, args...)
	cmd.Env = append(os.Environ(), "KAFKA_RUN="+c.run)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("scripts/kafka %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// openCluster takes the cluster of KAFKA_RUN where it is up, or starts one of
// its own, and makes the topics.
func (k *soak) openCluster(ctx context.Context) error {
	c := &k.cluster
	c.script, c.run = filepath.Join(k.root, "scripts/kafka"), os.Getenv("KAFKA_RUN")
	out := ""
	if c.run != "" {
		out, _ = c.tool(ctx, "env") // an error: none is up
	}
	if out == "" {
		c.run, c.own = filepath.Join(k.dir, "kafka"), true
		if _, err := c.tool(ctx, "up", "3"); err != nil {
			return err
		}
		var err error
		if out, err = c.tool(ctx, "env"); err != nil {
			return err
		}
	}
	for line := range strings.Lines(out) {
		if addresses, ok := strings.CutPrefix(strings.TrimSpace(line), "KAFKA_PLAINTEXT="); ok {
			k.brokers = strings.Split(addresses, ",")
		}
	}
	if len(k.brokers) != len(brokerNames) {
		return fmt.Errorf("a soak needs 3 brokers; %s has %d", c.run, len(k.brokers))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(k.brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return err
	}
	k.client, k.admin = client, kadm.NewClient(client)
	return k.makeTopics(ctx)
}

// closeCluster ends the cluster that was started here.
func (k *soak) closeCluster() {
	if k.client != nil {
		k.client.Close()
	}
	if k.cluster.own {
		if _, err := k.cluster.tool(context.Background(), "down"); err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
		}
	}
}

// keepBrokerLogs copies the logs of the brokers, which may not be ours.
func (k *soak) keepBrokerLogs() error {
	for _, name := range brokerNames {
		in, err := os.Open(filepath.Join(k.cluster.run, name, "kafka.log"))
		if err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(k.dir, "kafka-"+name+".log"))
		if err != nil {
			_ = in.Close()
			return err
		}
		_, err = io.Copy(out, bufio.NewReader(in))
		_, _ = in.Close(), out.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// partitions is how many a port's topic has: the outlets' differ from the
// inlet's, so that one request has keys of several.
var partitions = map[string]int{"in": 4, "out": 3, "other": 5}

// topic is a port's: all streams read the same inlet.
func (k *soak) topic(mode, port string) string {
	if port == "in" {
		return k.pipeline + ".in"
	}
	return k.pipeline + "." + mode + "." + port
}

// topics are all of them, with their partitions.
func (k *soak) topics() map[string]int {
	all := map[string]int{}
	for _, mode := range modeNames {
		for port, n := range partitions {
			all[k.topic(mode, port)] = n
		}
	}
	return all
}

func (k *soak) group(mode string) string { return k.pipeline + "." + mode + ".in" }

// makeTopics makes them so that Kafka itself loses nothing that it confirmed,
// and so that the brokers' clock stamps every record.
func (k *soak) makeTopics(ctx context.Context) error {
	text := func(s string) *string { return &s }
	configs := map[string]*string{
		"message.timestamp.type": text("LogAppendTime"), "min.insync.replicas": text("2"),
		"unclean.leader.election.enable": text("false"), "retention.ms": text("-1"),
	}
	for topic, n := range k.topics() {
		made, err := k.admin.CreateTopic(ctx, int32(n), int16(len(brokerNames)), configs, topic)
		if err == nil {
			err = made.Err
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // ours: the answer was lost, and it was asked for again
			return fmt.Errorf("making %s: %w", topic, err)
		}
	}
	return k.awaitWhole(ctx)
}

// healLimit is how long a cluster may take to be whole again; nothing of ours
// depends on it.
const healLimit = 5 * time.Minute

// awaitWhole waits until every partition has its leader and all its copies.
func (k *soak) awaitWhole(ctx context.Context) error {
	begin, missing := time.Now(), "never looked at"
	for time.Since(begin) < healLimit {
		if missing = k.missing(ctx); missing == "" {
			return nil
		}
		if !pause(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("the cluster is not whole after %v: %s", healLimit, missing)
}

// missing is what the cluster lacks, "" for nothing.
func (k *soak) missing(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	listed, err := k.admin.ListTopics(ctx)
	if err != nil {
		return err.Error()
	}
	for topic, n := range k.topics() {
		if len(listed[topic].Partitions) != n {
			return topic + " is not there"
		}
	}
	for name, topic := range listed {
		if _, ours := k.topics()[name]; !ours && !topic.IsInternal {
			continue
		}
		for _, p := range topic.Partitions {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				return fmt.Sprintf("%s/%d has leader %d and in sync %v", name, p.Partition, p.Leader, p.ISR)
			}
		}
	}
	return ""
}
