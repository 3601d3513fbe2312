package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/kafka/faultproxy"

	"ankka-flow/delivery/kafka/sequence"
)

// fate is what becomes of a batch whose write was answered so.
type fate int

const (
	// settled: it is confirmed, by the identical bytes; the stream does not fail.
	settled fate = iota
	// sentAgain: it was certainly not appended and is sent again, from the same
	// sequence; the stream does not fail.
	sentAgain
	// fails: the stream fails, naming topic, code and what to do; nothing was
	// appended; the epoch stays.
	fails
	// unsettled: the stream fails, and the epoch is raised.
	unsettled
)

// answerRow is a row of the table of what an answer to a write means.
type answerRow struct {
	name   string
	script []step
	want   fate
	says   string // the line of the failure has it
}

// twice is a code as the first answer to appended bytes and to bytes that were
// not, and then, after that unknown answer, once more.
func twice(rows []answerRow, code int16) []answerRow {
	name := sequence.Explain(code, "")
	return append(rows,
		answerRow{name + ", appended: unknown, and again: still unknown", []step{says(code), says(code)}, settled, ""},
		answerRow{name + ", not appended: unknown, and again: still unknown", []step{denies(code), denies(code)}, settled, ""},
	)
}

// settledRows are those under which the stream carries on.
func settledRows() []answerRow {
	rows := []answerRow{
		{"0 as the first answer: confirmed", nil, settled, ""},
		{"46, appended, as the first answer: confirmed", []step{says(46)}, settled, ""},
		{"0 after a lost answer: confirmed", []step{lost}, settled, ""},
		{"0 after a lost request: confirmed", []step{swallowed}, settled, ""},
		{"46 after a lost answer: confirmed", []step{lost, says(46)}, settled, ""},
		{"2 as the first answer: sent again", []step{denies(2), denies(2)}, sentAgain, ""},
		{"2 after a lost answer: still unknown", []step{lost, denies(2)}, settled, ""},
		{"2 after a lost request: still unknown", []step{swallowed, denies(2), denies(2)}, settled, ""},
		{"19 as the first answer: sent again", []step{denies(19), denies(19), denies(19)}, sentAgain, ""},
		{"19 after a lost answer: still unknown", []step{lost, denies(19)}, settled, ""},
		{"19 after a lost request: still unknown", []step{swallowed, denies(19), denies(19)}, settled, ""},
		{"lost again and again: still unknown", []step{swallowed, lost, swallowed, lost}, settled, ""},
		{"none in time, appended: unknown", []step{muted}, settled, ""},
		{"none in time, not appended: unknown", []step{deaf}, settled, ""},
		{"never handed over, after a lost answer: still unknown", []step{{cut: true, away: true}}, settled, ""},
		{"never handed over, after a lost request: still unknown", []step{{cut: true, withheld: true, away: true}}, settled, ""},
		{"never handed over, after 19: sent again", []step{{code: 19, withheld: true, away: true}}, sentAgain, ""},
	}
	for _, code := range []int16{-1, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 20, 41, 51, 56, 72, 74, 75, 78, 80, 84, 89, 100, 103} {
		rows = twice(rows, code)
	}
	return rows
}

// failingRows are those under which the stream fails.
func failingRows() []answerRow {
	var rows []answerRow
	for code, says := range map[int16]string{
		10: `MESSAGE_TOO_LARGE.*max\.message\.bytes`, 87: `INVALID_RECORD`, 32: `INVALID_TIMESTAMP`,
		17: `INVALID_TOPIC_EXCEPTION`, 29: `TOPIC_AUTHORIZATION_FAILED.*needs WRITE on the topic`, 31: `CLUSTER_AUTHORIZATION_FAILED.*IDEMPOTENT_WRITE`,
		18: `RECORD_LIST_TOO_LARGE`, 21: `INVALID_REQUIRED_ACKS`, 35: `UNSUPPORTED_VERSION`, 42: `INVALID_REQUEST`, 43: `UNSUPPORTED_FOR_MESSAGE_FORMAT`,
		44: `POLICY_VIOLATION`, 76: `UNSUPPORTED_COMPRESSION_TYPE`,
	} {
		name := sequence.Explain(code, "")
		rows = append(rows, answerRow{name + ", one record, as the first answer: fails", []step{denies(code)}, fails, fmt.Sprintf(`code %d \(%s`, code, says)})
		if code == 18 || code == 21 || code == 35 || code == 42 || code == 43 || code == 76 {
			continue // what they are after an unknown answer is said by the others
		}
		rows = append(rows,
			answerRow{name + ", after a lost answer: unsettled", []step{lost, denies(code)}, unsettled, fmt.Sprintf(`\.out/0: code %d `, code)},
			answerRow{name + ", after a lost request: unsettled", []step{swallowed, denies(code)}, unsettled, fmt.Sprintf(`\.out/0: code %d `, code)},
		)
	}
	for _, code := range []int16{45, 47, 59} {
		name := sequence.Explain(code, "")
		words := fmt.Sprintf(`\.out/0: code %d `, code)
		rows = append(rows,
			answerRow{name + ", appended, as the first answer: unsettled", []step{says(code)}, unsettled, words},
			answerRow{name + ", not appended, as the first answer: unsettled", []step{denies(code)}, unsettled, words},
			answerRow{name + ", after a lost answer: unsettled", []step{lost, denies(code)}, unsettled, words},
			answerRow{name + ", after a lost request: unsettled", []step{swallowed, denies(code)}, unsettled, words},
		)
	}
	slices.SortFunc(rows, func(a, b answerRow) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return rows
}

// lateRows stay unknown for longer than FLOW_WRITE_TIMEOUT, which is 1 s there.
func lateRows() []answerRow {
	late := func(first step) []step {
		return append([]step{first}, slices.Repeat([]step{denies(7)}, 200)...)
	}
	return []answerRow{
		{"still unknown after FLOW_WRITE_TIMEOUT, appended: unsettled", late(lost), unsettled, `it stayed unknown for 1s, last: .*\.out/0: code 7 `},
		{"still unknown after FLOW_WRITE_TIMEOUT, not appended: unsettled", late(swallowed), unsettled, `it stayed unknown for 1s, last: .*\.out/0: code 7 `},
	}
}

// TestR9_WhatAnAnswerMeans is the table of what an answer to a write means, the
// whole program before a broker whose answers are changed; kfake is the broker.
func TestR9_WhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	everyAnswer(t, cluster.ListenAddrs())
}

// everyAnswer runs the rows, a few under each supervisor, one after another:
// as the first write of an epoch and as a later one.
func everyAnswer(t *testing.T, brokers []string) {
	t.Helper()
	for name, rows := range map[string][]answerRow{"settled": settledRows(), "failing": failingRows(), "late": lateRows()} {
		chains := min(3, len(rows))
		for n := range chains {
			t.Run(fmt.Sprintf("%s-%d", name, n), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), 5*testLimit)
				t.Cleanup(cancel)
				a := newAnswering(ctx, t, brokers, fmt.Sprintf("answers-%s-%d", name, n), 1)
				if name == "late" {
					a.env = []string{"FLOW_WRITE_TIMEOUT=1s"}
				}
				chain := &answerChain{answering: a, p: a.run(countedCommand())}
				chain.p.await(`ready`)
				for i := n; i < len(rows); i += chains {
					t.Run(rows[i].name, func(t *testing.T) {
						a.t = t
						chain.row(rows[i])
					})
				}
				a.t = t
				chain.p.stopsWell()
				chain.checkLogs()
			})
		}
	}
}

// answerChain is one supervisor that lives through many rows.
type answerChain struct {
	*answering
	p     *program
	epoch int16
	done  []answerRow
}

// value is what a row's record for a partition of the outlet has.
func rowValue(row int, partition int32) string { return fmt.Sprintf("%04d/%d", row, partition) }

func (c *answerChain) row(row answerRow) {
	c.t.Helper()
	c.p.t = c.t
	n, from, lines := len(c.done), len(c.seen(0)), c.p.count()
	c.done = append(c.done, row)
	c.mu.Lock()
	c.script = slices.Clone(row.script)
	c.mu.Unlock()
	records := []*kgo.Record{
		{Key: c.keyOn(0, n), Value: []byte(rowValue(n, 0))}, {Key: c.keyOn(1, n), Value: []byte(rowValue(n, 1))},
	}
	c.put(0, records...)
	if slices.ContainsFunc(row.script, func(s step) bool { return s.away }) {
		c.leaderAway()
	}
	if row.want == unsettled {
		// What its new conversation writes passes.
		c.p.awaitFrom(lines, `WRN failed`)
		c.mu.Lock()
		c.script = nil
		c.mu.Unlock()
	}
	c.awaitEnd()
	tries := c.seen(from)
	if row.want != unsettled && len(tries) < len(row.script) {
		c.t.Fatalf("%d requests, want at least %d", len(tries), len(row.script))
	}
	failed := regexp.MustCompile(`WRN failed`).FindAllString(c.p.since(lines), -1)
	switch row.want {
	case settled, sentAgain:
		if len(failed) > 0 {
			c.t.Errorf("the stream failed:\n%s", c.p.since(lines))
		}
		c.sameBytes(row, tries)
	case fails:
		// What a person has to mend is the Kafka client's line, once; the rest the failure's.
		c.says(lines, `(WRN failed +inlet in: `+c.name+`\.in/0\b.*refused: `+c.name+`\.out/0|ERR kafka +the topic cannot be written): `+row.says)
		if last := tries[len(tries)-1]; last.epoch() != c.epoch || last.sequence() != tries[0].sequence() {
			c.t.Errorf("sent with epoch %d and sequence %d, the refused bytes had %d and %d", last.epoch(), last.sequence(), c.epoch, tries[0].sequence())
		}
	case unsettled:
		c.says(lines, `WRN failed .*cannot be settled: .*`+row.says)
		c.raised(tries)
	}
}

// says: a line of stderr from number from on matches. The commit that was
// awaited comes after it, so it is on its way at the latest.
func (c *answerChain) says(from int, pattern string) {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(5 * time.Second)
	defer limit.Stop()
	for {
		c.p.mu.Lock()
		more := c.p.more
		c.p.mu.Unlock()
		if re.MatchString(c.p.since(from)) {
			return
		}
		select {
		case <-more:
		case <-limit.C:
			c.t.Errorf("no line matches %q:\n%s", pattern, c.p.since(from))
			return
		}
	}
}

// leaderAway makes the broker that a step names take no connection, until it
// was asked for three.
func (c *answerChain) leaderAway() {
	c.t.Helper()
	broker := <-c.away
	before := c.proxy.TurnedAway(broker)
	c.proxy.Refuse(broker, true)
	eventually(c.t, "the leader was tried again", func() bool { return c.proxy.TurnedAway(broker) >= before+3 })
	c.proxy.Refuse(broker, false)
}

// sameBytes: while an answer is unknown, nothing but the identical bytes goes to
// the partition; what was not appended goes again from its sequence.
func (c *answerChain) sameBytes(row answerRow, tries []attempt) {
	c.t.Helper()
	for i, try := range tries {
		if try.epoch() != c.epoch || try.sequence() != tries[0].sequence() {
			c.t.Errorf("request %d has epoch %d and sequence %d, the first %d and %d", i+1, try.epoch(), try.sequence(), c.epoch, tries[0].sequence())
		}
		if row.want == settled && !bytes.Equal(try.bytes, tries[0].bytes) {
			c.t.Errorf("request %d has other bytes than the first", i+1)
		}
	}
	if last := tries[len(tries)-1]; last.code != 0 {
		c.t.Errorf("the last request was answered %d by the broker", last.code)
	}
}

// raised: what goes out after the failure has the next epoch and begins at 0,
// and the bytes of the old one, coming late, are refused.
func (c *answerChain) raised(tries []attempt) {
	c.t.Helper()
	old, last := tries[0], tries[len(tries)-1]
	if last.epoch() != c.epoch+1 || last.sequence() != 0 {
		c.t.Errorf("after it epoch %d and sequence %d, want %d and 0", last.epoch(), last.sequence(), c.epoch+1)
	}
	for _, try := range tries {
		if try.epoch() == c.epoch && !bytes.Equal(try.bytes, old.bytes) {
			c.t.Error("other bytes were sent under the old epoch")
		}
	}
	c.epoch = last.epoch()
	code := int16(6)
	late := *old.request
	eventually(c.t, "the partition's leader answers the late bytes", func() bool {
		if code = c.late(&late); code == 6 { // it has moved since: busy brokers are fenced
			late.Broker = (late.Broker + 1) % len(c.brokers)
		}
		return code != 6
	})
	if code != 47 {
		c.t.Errorf("late bytes are answered %d, want 47: refused", code)
	}
}

// late sends a request again, as the bytes of a client that is gone, and gives
// the code of the partition that is looked at.
func (c *answerChain) late(r *faultproxy.Request) int16 {
	c.t.Helper()
	response, err := r.Deliver(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, topic := range response.(*kmsg.ProduceResponse).Topics {
		for _, p := range topic.Partitions {
			if topic.Topic == c.target.Topic && p.Partition == c.target.Index {
				return p.ErrorCode
			}
		}
	}
	c.t.Fatal("the late bytes are not answered")
	return 0
}

// checkLogs: nothing is lost and nothing is reordered; what is there twice was
// delivered twice, because the stream failed.
func (c *answerChain) checkLogs() {
	c.t.Helper()
	log := c.log()
	for partition := range int32(2) {
		next := 0
		for _, value := range log[partition] {
			var row, at int
			if _, err := fmt.Sscanf(value, "%d/%d", &row, &at); err != nil || at != int(partition) {
				c.t.Fatalf("on partition %d: %q", partition, value)
			}
			if row > next || row < next-1 {
				c.t.Fatalf("on partition %d: row %d comes where row %d is due", partition, row, next)
			}
			next = row + 1
		}
		for n, row := range c.done {
			copies, most := 0, 1
			for _, value := range log[partition] {
				if value == rowValue(n, partition) {
					copies++
				}
			}
			least := 1
			switch {
			case partition == 1 && (row.want == fails || row.want == unsettled):
				most = 2
			case row.want == unsettled && appended(row.script):
				least, most = 2, 2
			}
			if copies < least || copies > most {
				c.t.Errorf("%q: %d copies on partition %d, want %d to %d", row.name, copies, partition, least, most)
			}
		}
	}
}

// appended: a broker got the bytes under the script.
func appended(script []step) bool {
	return slices.ContainsFunc(script, func(s step) bool { return !s.withheld })
}
