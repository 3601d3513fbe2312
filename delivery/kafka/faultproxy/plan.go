package faultproxy

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Partition names a partition of a topic. Produce requests of version 13 and
// later name topics by their id; nothing here finds them.
type Partition struct {
	Topic string
	Index int32
}

// Fate is what becomes of one partition's bytes in a Produce request. The zero
// value: they go to the broker, and its answer goes back.
type Fate struct {
	// Withheld: the broker does not get the bytes, so they are certainly not
	// appended.
	Withheld bool
	// Code, where it is not 0, is what the answer says, whatever the broker said.
	Code int16
}

// Plan is what becomes of a request. The zero value: it passes.
type Plan struct {
	// Fates holds what differs for single partitions of a Produce request; with
	// another request it means nothing.
	Fates map[Partition]Fate
	// Withheld: the broker gets nothing of the request. It needs Cut or Mute,
	// for there is nothing to answer; a Produce request may have Fates instead.
	Withheld bool
	// Cut ends the connection in place of the answer, when the broker has
	// answered where it got the request.
	Cut bool
	// Mute: no answer comes, to this request and to what is behind it on its
	// connection, which stays open.
	Mute bool
	// Throttle is the wait that the answer to a Produce request asks for, as over
	// a quota; 0: as the broker says.
	Throttle time.Duration
	// Answer, where it is not nil, holds the answer back until it is closed, or
	// the connection is.
	Answer <-chan struct{}
	// Held, where it is not nil, holds the request back, and what is behind it
	// on its connection, until it is closed; a client that hangs up meanwhile
	// changes nothing.
	Held <-chan struct{}
}

// Request is a request that a client has sent.
type Request struct {
	// Broker is the place of the broker's address in what Start was given.
	Broker int
	// Key, Version and ClientID are from the request's header.
	Key      kmsg.Key
	Version  int16
	ClientID string
	// Body is the request itself. It must not be changed.
	Body kmsg.Request

	proxy       *Proxy
	correlation uint32
	header      []byte // what stands before the body, without the size
	frame       []byte // the whole, without the size
}

// Produced is a partition's part of a Produce request, nil where it has none.
func (r *Request) Produced(p Partition) []byte {
	produce, ok := r.Body.(*kmsg.ProduceRequest)
	if !ok {
		return nil
	}
	for _, topic := range produce.Topics {
		for _, part := range topic.Partitions {
			if topic.Topic == p.Topic && part.Partition == p.Index {
				return part.Records
			}
		}
	}
	return nil
}

// without is the frame of a Produce request without what its plan withholds;
// nil where nothing is left.
func (r *Request) without(plan Plan) ([]byte, error) {
	if plan.Withheld {
		return nil, nil
	}
	withheld := 0
	for _, fate := range plan.Fates {
		if fate.Withheld {
			withheld++
		}
	}
	produce, ok := r.Body.(*kmsg.ProduceRequest)
	if withheld == 0 || !ok {
		return r.frame, nil
	}
	rest := *produce
	rest.Topics = nil
	for _, topic := range produce.Topics {
		kept := topic
		kept.Partitions = nil
		for _, part := range topic.Partitions {
			if !plan.Fates[Partition{topic.Topic, part.Partition}].Withheld {
				kept.Partitions = append(kept.Partitions, part)
			}
		}
		if len(kept.Partitions) > 0 {
			rest.Topics = append(rest.Topics, kept)
		}
	}
	if len(rest.Topics) == 0 {
		return nil, nil
	}
	return rest.AppendTo(append([]byte(nil), r.header...)), nil
}

// judged is the answer to a Produce request as its plan wants it: the broker's,
// nil where it was not asked, with the codes of the fates.
func (r *Request) judged(plan Plan, answer *kmsg.ProduceResponse) *kmsg.ProduceResponse {
	said := map[Partition]kmsg.ProduceResponseTopicPartition{}
	whole := r.Body.ResponseKind().(*kmsg.ProduceResponse)
	if answer != nil {
		whole.ThrottleMillis = answer.ThrottleMillis
		for _, topic := range answer.Topics {
			for _, part := range topic.Partitions {
				said[Partition{topic.Topic, part.Partition}] = part
			}
		}
	}
	if plan.Throttle > 0 {
		whole.ThrottleMillis = int32(plan.Throttle / time.Millisecond)
	}
	for _, topic := range r.Body.(*kmsg.ProduceRequest).Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic = topic.Topic
		for _, part := range topic.Partitions {
			at := Partition{topic.Topic, part.Partition}
			one, asked := said[at]
			if !asked {
				one = kmsg.NewProduceResponseTopicPartition()
				one.Partition = part.Partition
			}
			if fate := plan.Fates[at]; fate.Code != 0 {
				one.ErrorCode, one.BaseOffset, one.ErrorMessage = fate.Code, -1, nil
			}
			out.Partitions = append(out.Partitions, one)
		}
		whole.Topics = append(whole.Topics, out)
	}
	return whole
}
