package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	franzplain "github.com/twmb/franz-go/pkg/sasl/plain"

	"ankka-flow/cmd/ankka-flow/security"
	"ankka-flow/delivery"
)

// right is one right of the test's user.
type right struct {
	resource  kmsg.ACLResourceType
	name      string
	operation kmsg.ACLOperation
}

var (
	readIn   = right{kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationRead}
	readG    = right{kmsg.ACLResourceTypeGroup, "group", kmsg.ACLOperationRead}
	seeIn    = right{kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationDescribe}
	writeOut = right{kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationWrite}
	seeOut   = right{kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationDescribe}
	idem     = right{kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLOperationIdempotentWrite}
)

// guardedCluster has an authorizer, an administrator and a user with rights.
func guardedCluster(t testing.TB, rights ...right) (*kfake.Cluster, *kadm.Client) {
	t.Helper()
	var acls []kfake.ACL
	for _, r := range rights {
		acls = append(acls, kfake.ACL{Resource: r.resource, Name: r.name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: r.operation, Allow: true})
	}
	cl := newCluster(t, kfake.SeedTopics(1, "in", "out"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", userName, password, acls...))
	return cl, kadm.NewClient(administrator(t, cl))
}

func administrator(t testing.TB, cl *kfake.Cluster) *kgo.Client {
	return kgoClient(t, cl, kgo.SASL(franzplain.Auth{User: "admin", Pass: "admin"}.AsMechanism()))
}

// give grants a right.
func give(t testing.TB, admin *kadm.Client, r right) {
	t.Helper()
	b := kadm.NewACLs().Allow("User:" + userName).AllowHosts().Operations(r.operation).ResourcePatternType(kadm.ACLPatternLiteral)
	switch r.resource {
	case kmsg.ACLResourceTypeTopic:
		b = b.Topics(r.name)
	case kmsg.ACLResourceTypeGroup:
		b = b.Groups(r.name)
	default:
		b = b.Clusters()
	}
	results, err := admin.CreateACLs(testContext(t), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

func bob(t testing.TB) func(*Config) {
	return secured(t, security.Settings{Protocol: "SASL_PLAINTEXT", Mechanism: "PLAIN", Username: userName, Password: password})
}

// A right that an inlet lacks is named in one line, with what it is on and
// whose it is; once it is given, the records come.
func TestCase60_AnInletsMissingRightIsNamedAndHeals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rights []right
		lacks  right
		want   []string
	}{
		{"READ topic", []right{seeIn, readG}, readIn, []string{"READ", "topic in", "User:bob"}},
		{"DESCRIBE topic", []right{readG}, readIn, []string{"DESCRIBE", "topic in", "User:bob"}},
		{"READ group", []right{readIn}, readG, []string{"READ", "group group", "User:bob"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cl, admin := guardedCluster(t, tt.rights...)
			write(t, administrator(t, cl), "in", 1, 0, 3)
			log, logs := logged()
			c := newTestClient(t, cl.ListenAddrs(), bob(t), func(c *Config) { c.Logger = log })
			r := take(t, c, Inlet{Topic: "in", Group: "group"})
			said := func() (lines []string) {
				for line := range strings.Lines(logs()) {
					if strings.Contains(line, " needs ") {
						lines = append(lines, line)
					}
				}
				return lines
			}
			eventually(t, "the right is named", func() bool { return len(said()) > 0 })
			for _, want := range append(tt.want, "level=ERROR") {
				if !strings.Contains(said()[0], want) {
					t.Errorf("%s does not say %q", said()[0], want)
				}
			}
			give(t, admin, tt.lacks)
			eventually(t, "the records come", func() bool { return r.count() == 3 })
			if n := len(said()); n != 1 {
				t.Errorf("said %d times: %s", n, logs())
			}
		})
	}
}

func TestCase60_AnOutletsMissingRightIsNamedAndHeals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rights []right
		lacks  right
		want   []string
	}{
		{"WRITE topic", []right{seeOut, idem}, writeOut, []string{"out/0", "User:bob needs WRITE on the topic"}},
		{"DESCRIBE topic", []right{idem}, writeOut, []string{"DESCRIBE", "topic out", "User:bob"}},
		{"IDEMPOTENT_WRITE", []right{seeOut}, writeOut, []string{"IDEMPOTENT_WRITE", "cluster", "WRITE", "User:bob"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cl, admin := guardedCluster(t, tt.rights...)
			log, logs := logged()
			c := newTestClient(t, cl.ListenAddrs(), bob(t), func(c *Config) { c.Logger = log })
			p, out := newTestProducer(t, c, func(c *ProducerConfig) { c.TopicTimeout = 200 * time.Millisecond })
			p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 3, nil)}})
			eventually(t, "the write is refused", func() bool { return out.last(1) != nil })
			refused, ok := out.last(1).(delivery.Refused)
			if !ok {
				t.Fatalf("%#v", out.last(1))
			}
			for _, want := range tt.want {
				if !strings.Contains(refused.Reason, want) {
					t.Errorf("%s does not say %q", refused.Reason, want)
				}
			}
			give(t, admin, tt.lacks)
			id := uint64(1)
			eventually(t, "a write is taken", func() bool {
				id++
				p.Write(id, tp(0), []Out{{Topic: "out", Records: values(id, 3, nil)}})
				eventually(t, "an answer", func() bool { return out.last(id) != nil })
				_, ok := out.last(id).(delivery.Written)
				return ok
			})
			want := "level=ERROR msg=\"the topic cannot be written: "
			if tt.name == "IDEMPOTENT_WRITE" {
				want = "level=ERROR msg=\"nothing can be written: "
			}
			if n := strings.Count(logs(), "level=ERROR"); n != 1 || !strings.Contains(logs(), want) {
				t.Errorf("%d errors were said:\n%s", n, logs())
			}
		})
	}
}
