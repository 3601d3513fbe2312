package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The writer's pace: bursts of up to so many records, so far apart on average.
const (
	burstMost = 40
	burstGap  = 100 * time.Millisecond
	// floodMost is a burst that makes batches full; one of a hundred is one.
	floodMost = 1000
	keys      = 60
	valueMost = 2000
)

// write writes keyed records until the time is over, and waits until every one
// is in the log.
func (k *soak) write(ctx context.Context, total time.Duration) error {
	random := rand.New(rand.NewPCG(k.seed, 3))
	// No limit: what the faults put off is written later, in order.
	client, err := kgo.NewClient(kgo.SeedBrokers(k.brokers...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.DefaultProduceTopic(k.topic("", "in")), kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	refused := make(chan error, 1)
	for time.Since(k.begin) < total {
		n := 1 + random.IntN(burstMost)
		if random.IntN(100) == 0 {
			n = floodMost
		}
		for range n {
			client.Produce(ctx, record(random, k.written), func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case refused <- err:
					default: // one is enough
					}
				}
			})
			k.written++
		}
		select {
		case err := <-refused:
			return fmt.Errorf("writing the input: %w", err)
		default:
		}
		if !pause(ctx, time.Duration(random.Int64N(int64(2*burstGap)))) {
			return nil
		}
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("writing the input: %w", err)
	}
	return nil
}

// record is the input's record of a number: keys come in runs, and null and
// empty values among the others.
func record(random *rand.Rand, number int) *kgo.Record {
	key := random.IntN(keys)
	if random.IntN(3) == 0 {
		key = number / 8 % keys
	}
	r := &kgo.Record{
		Key: []byte("key-" + strconv.Itoa(key)),
		Headers: []kgo.RecordHeader{
			{Key: "n", Value: []byte(strconv.Itoa(number))}, {Key: "n", Value: nil}, {Key: "\xff", Value: []byte{}},
		},
	}
	switch random.IntN(50) {
	case 0:
	case 1:
		r.Value = []byte{}
	default:
		pad := bytes.Repeat([]byte{byte('a' + random.IntN(26))}, random.IntN(valueMost))
		r.Value = fmt.Appendf(nil, `{"number":%d,"pad":"%s"}`, number, pad)
	}
	return r
}
