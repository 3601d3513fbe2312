//go:build kafka

package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What a handler raises is never an ack, whatever it is and wherever: the record
// is named, and the commit stands at it.
func TestKafka_Case41_NothingThatIsRaisedBecomesAnAck(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]string{
		"exit":      "        raise SystemExit(0)",
		"interrupt": "        raise KeyboardInterrupt",
		"generator": "        yield self.out.emit(record)\n        raise SystemExit(0)",
		"async":     "        return []\n\n    async def process_record(self, record, ctx):\n        raise SystemExit(0)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kafkaCluster(t)
			name := "raised-" + name
			c.create(1, nil, name+".in")
			c.create(1, nil, name+".out")
			c.put(name+".in", numbered(0, 3)...)
			p := c.run(name, []string{"FLOW_RECONNECT_MAX_BACKOFF=500ms"}, nil, sdkStreamlet(t, "", handler))
			p.await(`WRN convicted +the same record .* 2 times: ` + name + `\.in/0@0 `)
			if at := c.committed(name)[0]; at > 0 {
				t.Errorf("committed at %d, and nothing was done", at)
			}
			if n := len(c.read(name + ".out")[0]); n != 0 {
				t.Errorf("%d records are written, want none", n)
			}
			p.interrupt()
			p.wait() // 0, or 1 where it was stopped in the middle of a failure
		})
	}
}

// One record that kills the process is known by its place and its tries; what is
// before it is committed and the other partition goes on.
func TestKafka_Case45_OneRecordKillsTheProcess(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(2, nil, "deadly.in")
	c.create(1, nil, "deadly.out")
	writer := c.franz(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("deadly.in"))
	put := func(records ...*kgo.Record) {
		t.Helper()
		if err := writer.ProduceSync(c.ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	records := keyed(0, "before", 5)
	records = append(records, &kgo.Record{Key: []byte("bad"), Value: []byte("poison")})
	put(append(records, keyed(0, "behind", 4)...)...)
	p := c.run("deadly", []string{"FLOW_RECONNECT_MAX_BACKOFF=1s"}, nil, sdkStreamlet(t, "", poisoned(poisons[1].handler)))
	p.await(`WRN convicted +the same record killed the process 2 times: deadly\.in/0@5 \(inlet in\)`)
	put(keyed(1, "other", 20)...)
	eventually(t, "the other partition goes on", func() bool { return c.committed("deadly")[1] == 20 })
	p.await(`WRN convicted +the same record killed the process 3 times: deadly\.in/0@5 \(inlet in\)`)
	if at := c.committed("deadly")[0]; at != 5 {
		t.Errorf("committed at %d, want 5: all before the record and nothing of it", at)
	}
	p.interrupt()
	p.wait() // 0, or 1 where it was stopped in the middle of a failure
}

// A new group begins at the first record of what is there already.
func TestKafka_Case46_AFreshGroupBeginsAtTheFirst(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "fresh.in", "fresh.out")
	c.put("fresh.in", numbered(0, 100)...)
	c.run("fresh", nil, []string{"--until-end"}, misbehaves(t, "good")).endsWith(0)
	if out := c.read("fresh.out")[0]; keys(out) != keys(numbered(0, 100)) {
		t.Errorf("written: %s", keys(out))
	}
}
