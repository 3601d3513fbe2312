package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/kafka/sequence"
)

// answer is one kind of answer: what our decoder takes from it, as text, and
// what franz-go's takes, to compare.
type answer struct {
	name    string
	key     int16
	version int16
	ours    func(src []byte) (string, error)
	theirs  func(resp kmsg.Response) string
}

// answers are those of every decoder of this package but fetch's, which has a
// fuzzer of its own.
var answers = []answer{
	{"metadata 8", metadataKey, metadataVersion, oursMetadata(metadataVersion), theirsMetadata},
	{"metadata 10", metadataKey, metadataWithIDs, oursMetadata(metadataWithIDs), theirsMetadata},
	{"metadata 12", metadataKey, metadataNewest, oursMetadata(metadataNewest), theirsMetadata},
	{"produce", produceKey, produceVersion, oursProduced, theirsProduced},
	{"topic rights", metadataKey, metadataVersion, func(src []byte) (string, error) { r, err := decodeTopicRights(src); return fmt.Sprint(r), err }, theirsRights},
	{"topic details", metadataKey, metadataVersion, oursDetails, theirsDetails},
	{"offsets", listOffsetsKey, listOffsetsVersion, func(src []byte) (string, error) { o, err := decodeListedOffsets(src); return fmt.Sprint(o), err }, theirsOffsets},
	{"groups", listGroupsKey, listGroupsVersion, oursGroups, theirsGroups},
	{"group", describeGroupsKey, describeGroupsVersion, oursGroup, theirsGroup},
	{"created", createTopicsKey, createTopicsVersion, func(src []byte) (string, error) { return told(new(Client).decodeCreated(src)) }, theirsCreated},
	{"deleted", deleteTopicsKey, deleteTopicsVersion, func(src []byte) (string, error) { return told(new(Client).decodeDeleted(src)) }, theirsDeleted},
	{"versions", apiVersionsKey, apiVersionsVersion, func(src []byte) (string, error) { v, err := decodeMetadataVersion(src); return fmt.Sprint(v), err }, theirsVersions},
	{"producer id", initProducerIDKey, initProducerIDVersion, oursProducerID, theirsProducerID},
	{"handshake", saslHandshakeKey, saslHandshakeVersion, oursHandshake, theirsHandshake},
	{"proof", saslAuthenticateKey, saslAuthenticateVersion, oursProof, theirsProof},
}

// told is what a joined error says of topics, apart from a malformed answer.
func told(err error) (string, error) {
	if errors.Is(err, errMalformed) {
		return "", err
	}
	return codesIn(err), nil
}

// codesIn are the codes of joined errors.
func codesIn(err error) string {
	var codes []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			var code *CodeError
			if errors.As(e, &code) {
				codes = append(codes, fmt.Sprint(code.Code))
			}
		}
	}
	return strings.Join(codes, " ")
}

func oursMetadata(version int16) func(src []byte) (string, error) {
	return func(src []byte) (string, error) {
		a, err := decodeMetadataAt(src, version)
		topics := map[string]string{}
		for name, t := range a.topics {
			topics[name] = fmt.Sprint(t.code, t.id, t.leaders)
		}
		return fmt.Sprint(a.brokers, a.controller, topics), err
	}
}

func theirsMetadata(resp kmsg.Response) string {
	m := resp.(*kmsg.MetadataResponse)
	brokers, topics := map[int32]string{}, map[string]string{}
	for _, b := range m.Brokers {
		brokers[b.NodeID] = joinHostPort(b.Host, b.Port)
	}
	for _, t := range m.Topics {
		leaders := slices.Repeat([]int32{-1}, len(t.Partitions))
		for _, p := range t.Partitions {
			if p.Partition >= 0 && int(p.Partition) < len(leaders) {
				leaders[p.Partition] = p.Leader
			}
		}
		topics[text(t.Topic)] = fmt.Sprint(t.ErrorCode, topicID(t.TopicID), leaders)
	}
	return fmt.Sprint(brokers, m.ControllerID, topics)
}

// text is a string that may be null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func theirsRights(resp kmsg.Response) string {
	rights := map[string]int32{}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		may := t.AuthorizedOperations
		switch t.ErrorCode {
		case codeTopicAuthorization:
			may = 0
		case codeUnknownTopic:
			may = unknownRights
		}
		rights[text(t.Topic)] = may
	}
	return fmt.Sprint(rights)
}

func oursDetails(src []byte) (string, error) {
	topics, err := new(Client).decodeTopicDetails(src)
	var out []string
	for _, t := range topics {
		out = append(out, fmt.Sprint(t.Name, len(t.Partitions)))
	}
	slices.Sort(out)
	return fmt.Sprint(out), err
}

func theirsDetails(resp kmsg.Response) string {
	var out []string
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		out = append(out, fmt.Sprint(text(t.Topic), len(t.Partitions)))
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}

// oursProduced is the answer to a request for every partition that it answers.
func oursProduced(src []byte) (string, error) {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = produceVersion
	f := &frame{payloads: []*payload{{part: sequence.Partition{Topic: "other"}}}}
	if resp.ReadFrom(src) == nil {
		f.payloads = nil
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				f.payloads = append(f.payloads, &payload{batch: uint64(len(f.payloads)), part: sequence.Partition{Topic: t.Topic, Index: p.Partition}})
			}
		}
	}
	f.answered = make([]bool, len(f.payloads))
	events, _, err := decodeProduced(src, f)
	var codes []int16
	for _, e := range events {
		codes = append(codes, e.(sequence.Answered).Code)
	}
	return fmt.Sprint(codes), err
}

func theirsProduced(resp kmsg.Response) string {
	var codes []int16
	for _, t := range resp.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			codes = append(codes, p.ErrorCode)
		}
	}
	return fmt.Sprint(codes)
}

func theirsOffsets(resp kmsg.Response) string {
	out := map[int32]listedOffset{}
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			out[p.Partition] = listedOffset{p.ErrorCode, p.Offset}
		}
	}
	return fmt.Sprint(out)
}

func oursGroups(src []byte) (string, error) {
	code, names, err := decodeGroups(src)
	return fmt.Sprint(code, names), err
}

func theirsGroups(resp kmsg.Response) string {
	var names []string
	l := resp.(*kmsg.ListGroupsResponse)
	for _, g := range l.Groups {
		names = append(names, g.Group)
	}
	return fmt.Sprint(l.ErrorCode, names)
}

func oursGroup(src []byte) (string, error) {
	var g GroupDetail
	code, rights, err := g.decodeRights(src)
	out := fmt.Sprint(code, rights, g.Name, g.State)
	for _, m := range g.Members {
		out += fmt.Sprint(" ", m.ID, m.Instance, m.Client, m.Host)
	}
	return out, err
}

func theirsGroup(resp kmsg.Response) string {
	all := resp.(*kmsg.DescribeGroupsResponse).Groups
	if len(all) != 1 {
		return refusedByUs
	}
	g := all[0]
	out := fmt.Sprint(g.ErrorCode, g.AuthorizedOperations, g.Group, g.State)
	for _, m := range g.Members {
		out += fmt.Sprint(" ", m.MemberID, text(m.InstanceID), m.ClientID, m.ClientHost)
	}
	return out
}

// refusedByUs is a body that reads well and that we take for malformed all the same.
const refusedByUs = "malformed"

func theirsCreated(resp kmsg.Response) string {
	var codes []string
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != codeNone && t.ErrorCode != codeTopicExists {
			codes = append(codes, fmt.Sprint(t.ErrorCode))
		}
	}
	return strings.Join(codes, " ")
}

func theirsDeleted(resp kmsg.Response) string {
	var codes []string
	for _, t := range resp.(*kmsg.DeleteTopicsResponse).Topics {
		if t.ErrorCode != codeNone {
			codes = append(codes, fmt.Sprint(t.ErrorCode))
		}
	}
	return strings.Join(codes, " ")
}

func theirsVersions(resp kmsg.Response) string {
	version := int16(metadataVersion)
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		if k.ApiKey == metadataKey && k.MaxVersion >= metadataWithIDs {
			version = min(k.MaxVersion, metadataNewest)
		}
	}
	return fmt.Sprint(version)
}

func oursProducerID(src []byte) (string, error) {
	code, id, epoch, err := decodeProducerID(src)
	return fmt.Sprint(code, id, epoch), err
}

func theirsProducerID(resp kmsg.Response) string {
	p := resp.(*kmsg.InitProducerIDResponse)
	return fmt.Sprint(p.ErrorCode, p.ProducerID, p.ProducerEpoch)
}

func oursHandshake(src []byte) (string, error) {
	code, offered, err := decodeHandshake(src)
	return fmt.Sprint(code, offered), err
}

func theirsHandshake(resp kmsg.Response) string {
	h := resp.(*kmsg.SASLHandshakeResponse)
	return fmt.Sprint(h.ErrorCode, h.SupportedMechanisms)
}

func oursProof(src []byte) (string, error) {
	proof, lifetime, err := decodeProof(src)
	var code kafkago.Error
	if errors.As(err, &code) {
		return fmt.Sprint(int(code)), nil
	}
	return fmt.Sprint(string(proof), lifetime.Milliseconds()), err
}

func theirsProof(resp kmsg.Response) string {
	p := resp.(*kmsg.SASLAuthenticateResponse)
	if p.ErrorCode != codeNone {
		return fmt.Sprint(p.ErrorCode)
	}
	return fmt.Sprint(string(p.SASLAuthBytes), min(max(p.SessionLifetimeMillis, 0), time.Duration(math.MaxInt64).Milliseconds()))
}

// seedOf is an answer with one of everything in it.
func seedOf(a answer) []byte {
	resp := kmsg.ResponseForKey(a.key)
	resp.SetVersion(a.version)
	s := "t"
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		r.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "h", Port: 9}}
		r.Topics = []kmsg.MetadataResponseTopic{{Topic: &s, Partitions: []kmsg.MetadataResponseTopicPartition{{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}}}}
	case *kmsg.ProduceResponse:
		r.Topics = []kmsg.ProduceResponseTopic{{Topic: s, Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: 7, ErrorMessage: &s,
			ErrorRecords: []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: 1, ErrorMessage: &s}}}}}}
	case *kmsg.ListOffsetsResponse:
		r.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: s, Partitions: []kmsg.ListOffsetsResponseTopicPartition{{Offset: 7}}}}
	case *kmsg.ListGroupsResponse:
		r.Groups = []kmsg.ListGroupsResponseGroup{{Group: "g", ProtocolType: "consumer"}}
	case *kmsg.DescribeGroupsResponse:
		r.Groups = []kmsg.DescribeGroupsResponseGroup{{Group: "g", Members: []kmsg.DescribeGroupsResponseGroupMember{{MemberID: "m", InstanceID: &s}}}}
	case *kmsg.CreateTopicsResponse:
		r.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: s, ErrorCode: 41, ErrorMessage: &s}}
	case *kmsg.DeleteTopicsResponse:
		r.Topics = []kmsg.DeleteTopicsResponseTopic{{Topic: &s, ErrorCode: 3}}
	case *kmsg.ApiVersionsResponse:
		r.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 3, MaxVersion: 13}}
	case *kmsg.SASLHandshakeResponse:
		r.SupportedMechanisms = []string{"PLAIN"}
	case *kmsg.SASLAuthenticateResponse:
		r.SASLAuthBytes = []byte("x")
	}
	return resp.AppendTo(nil)
}

// FuzzAnswers: whatever a broker answers is malformed or says what franz-go
// reads in it, and costs no more memory than its bytes justify.
func FuzzAnswers(f *testing.F) {
	for i, a := range answers {
		f.Add(uint8(i), seedOf(a))
	}
	f.Fuzz(func(t *testing.T, which uint8, src []byte) {
		if len(src) > 64<<10 {
			return
		}
		a := answers[int(which)%len(answers)]
		var ours string
		var err error
		before := allocations()
		ours, err = a.ours(src)
		// What compares allocates, too: texts of what was decoded, several times.
		if grown := allocations() - before; grown > uint64(1000*len(src)+1<<20) {
			t.Fatalf("%s: %d bytes allocated for %d", a.name, grown, len(src))
		}
		if err != nil && !errors.Is(err, errMalformed) {
			t.Fatalf("%s: %v", a.name, err)
		}
		resp := kmsg.ResponseForKey(a.key)
		resp.SetVersion(a.version)
		if resp.ReadFrom(src) != nil || err != nil && !bytes.HasPrefix(src, resp.AppendTo(nil)) {
			return // we let a null pass where none is due, and it takes any length below 0 for one
		}
		want := a.theirs(resp)
		if want == refusedByUs && err != nil {
			return
		}
		if err != nil || ours != want {
			t.Fatalf("%s: %q, %v; franz-go has %q", a.name, ours, err, want)
		}
	})
}

// allocations is how many bytes were allocated so far.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
