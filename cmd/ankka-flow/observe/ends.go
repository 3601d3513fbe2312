package observe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
)

// Lister gives the last stable offsets of a topic's partitions:
// kafka.Client.ListOffsets at kafka.Latest.
type Lister func(ctx context.Context, topic string) (map[int32]int64, error)

// ends knows where partitions end. A fetch's answer says it, but nothing is
// fetched of a partition that is paused or whose buffer is full, and just there
// the lag grows: so the topics of partitions that are behind are asked for.
type ends struct {
	list  Lister // nil: nobody is asked
	mu    sync.Mutex
	asked map[string]map[int32]int64 // topic to ends; of topics that were asked for last
}

// endsInterval is how often the ends of topics that are behind are asked for,
// so that the lag is right within a second.
const endsInterval = 500 * time.Millisecond

// endsTimeout bounds one question.
const endsTimeout = 5 * time.Second

// wanted are the topics whose ends the fetches do not tell.
func wanted(s *driver.Snapshot) []string {
	topics := map[string]bool{}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		end, known := s.Ends[p.TP.Inlet][p.TP.Partition]
		if p.State == "lost" || known && end.LastStable <= p.Next() && p.Since < 0 && p.Why == "" {
			continue
		}
		if in, ok := inletOf(s, p.TP.Inlet); ok {
			topics[in.Topic] = true
		}
	}
	return slices.Sorted(maps.Keys(topics))
}

// ask asks for the ends of topics. One that does not answer keeps what was
// known of it: it only grows old.
func (e *ends) ask(ctx context.Context, topics []string) {
	fresh := map[string]map[int32]int64{}
	for _, topic := range topics {
		attempt, cancel := context.WithTimeout(ctx, endsTimeout)
		got, err := e.list(attempt, topic)
		cancel()
		if err != nil {
			e.mu.Lock()
			got = e.asked[topic]
			e.mu.Unlock()
		}
		fresh[topic] = got
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = fresh
}

// end is the last stable offset of a partition; ok is false where nobody has
// said it. The newest is the largest: it goes back only where the log was cut,
// and then the fetch is blocked and knows nothing new.
func (e *ends) end(s *driver.Snapshot, p *delivery.PartitionStatus, topic string) (end int64, ok bool) {
	fetched, ok := s.Ends[p.TP.Inlet][p.TP.Partition]
	ok = ok && fetched.LastStable >= 0
	e.mu.Lock()
	asked, said := e.asked[topic][p.TP.Partition]
	e.mu.Unlock()
	switch {
	case !said || asked < 0:
		return fetched.LastStable, ok
	case !ok || p.Why == "blocked":
		return asked, true
	}
	return max(fetched.LastStable, asked), true
}

func inletOf(s *driver.Snapshot, port string) (driver.PlannedInlet, bool) {
	if s.Plan == nil {
		return driver.PlannedInlet{}, false
	}
	return s.Plan.Inlet(port)
}
