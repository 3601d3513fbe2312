package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/delivery/devbroker"
)

// benchRecords is how many records of 100 bytes each round moves.
const benchRecords = 200_000

// BenchmarkThroughput moves the same records through a streamlet that
// forwards, through one that decodes and encodes JSON, and through a bare Go
// loop with the same guarantee and no process, on one embedded broker in one
// run: only the ratios count. Start-up is not in the figures of the loop and is
// in those of the streamlets.
//
//	go test ./cmd/ankka-flow -run '^$' -bench Throughput -benchtime 3x
func BenchmarkThroughput(b *testing.B) {
	dir := b.TempDir()
	broker, err := devbroker.Open(devbroker.Config{Dir: filepath.Join(dir, "broker"), Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	for _, topic := range []string{"bench.in", "bench.out"} {
		if err := broker.CreateTopic(topic, 3); err != nil {
			b.Fatal(err)
		}
	}
	fillBench(b, broker.Address())
	round := 0
	streamlet := func(mode string) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				round++
				runBench(b, broker.Address(), mode, fmt.Sprintf("bench-%s-%d", mode, round))
			}
			b.ReportMetric(float64(benchRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		}
	}
	b.Run("forward", streamlet("forward"))
	b.Run("json", streamlet("json"))
	b.Run("go-loop", func(b *testing.B) {
		for b.Loop() {
			round++
			loopBench(b, broker.Address(), fmt.Sprintf("bench-loop-%d", round))
		}
		b.ReportMetric(float64(benchRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	})
}

func fillBench(b *testing.B, address string) {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic("bench.in"), kgo.MaxBufferedRecords(benchRecords))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, benchRecords)
	for i := range records {
		records[i] = &kgo.Record{
			Key:   fmt.Appendf(nil, "key-%d", i%1000),
			Value: fmt.Appendf(nil, `{"id":%d,"total":%d,"note":"%058d"}`, i, i%200, i),
		}
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		b.Fatal(err)
	}
}

// runBench is one run of the real program up to the end of the input.
func runBench(b *testing.B, address, mode, pipeline string) {
	b.Helper()
	script, err := filepath.Abs("testdata/bench_streamlet.py")
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(binary, "run", "-b", address, "--pipeline", pipeline, "--topic", "in=bench.in", "--topic", "out=bench.out", "--until-end", "--", "python3", script, mode)
	cmd.Dir = b.TempDir()
	cmd.Env = append(cleanEnvironment(), "PYTHONPATH="+filepath.Join(repository, "sdk/python/src"))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
}

// loopBench is what a competent Go program does instead: it reads, writes in
// order and pipelined, and commits behind what is confirmed.
func loopBench(b *testing.B, address, group string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("bench.in"), kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.DefaultProduceTopic("bench.out"), kgo.MaxBufferedRecords(20_000))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	failed := make(chan error, 1)
	offsets := map[string]map[int32]kgo.EpochOffset{"bench.in": {}}
	for seen := 0; seen < benchRecords; {
		fetches := client.PollRecords(ctx, 5000)
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen++
			offsets["bench.in"][r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
			client.Produce(ctx, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers}, func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		})
		if err := client.Flush(ctx); err != nil {
			b.Fatal(err)
		}
		select {
		case err := <-failed:
			b.Fatal(err)
		default:
		}
		client.CommitOffsets(ctx, offsets, nil)
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		b.Fatal(err)
	}
}
