package driver

import (
	"strings"
	"testing"
)

func planFor(t *testing.T, outlets []string, errors map[string]string, topics map[string]string) (*Plan, string) {
	t.Helper()
	d := describe("router", []string{"in"}, outlets)
	plan, problems := NewPlan(&Declared{Pipeline: "shop", Errors: errors, Topics: topics}, &d)
	return plan, strings.Join(problems, "\n")
}

func TestRowTopicName_BindsTheDeadLetterOutlet(t *testing.T) {
	both := []string{DeadLetterPort, "out"}
	for _, c := range []struct {
		name, topic string
		replicas    int16
		errors      map[string]string
	}{
		{"unset", "shop.dead-letter", 3, nil},
		{"a name", "dlq", 3, map[string]string{DeadLetterTopic: "dlq"}},
		{"disabled", "shop.dead-letter", 0, map[string]string{DeadLetterTopic: ""}},
		{"a replication factor", "shop.dead-letter", 2, map[string]string{DeadLetterReplicas: "2"}},
	} {
		plan, problems := planFor(t, both, c.errors, nil)
		if problems != "" {
			t.Errorf("%s: %s", c.name, problems)
			continue
		}
		if out := plan.Outlets[0]; out.Topic != c.topic || out.Replicas != c.replicas || plan.Outlets[1].Replicas != 0 {
			t.Errorf("%s: %+v", c.name, plan.Outlets)
		}
	}
	if plan, problems := planFor(t, both, nil, map[string]string{DeadLetterPort: "mine"}); problems != "" || plan.Outlets[0].Topic != "mine" {
		t.Errorf("a topic by --topic: %v %s", plan, problems)
	}
}

func TestRowTopicName_Refusals(t *testing.T) {
	dlq := map[string]string{DeadLetterTopic: "dlq"}
	if _, problems := planFor(t, []string{"out"}, dlq, nil); !strings.Contains(problems, `has no outlet "dead-letter"`) {
		t.Errorf("no outlet: %q", problems)
	}
	if _, problems := planFor(t, []string{DeadLetterPort}, dlq, map[string]string{DeadLetterPort: "x"}); !strings.Contains(problems, "two topics") {
		t.Errorf("two topics: %q", problems)
	}
}

func TestCase78_DeadLetterTopicThatIsAnInletsIsRefused(t *testing.T) {
	_, problems := planFor(t, []string{DeadLetterPort}, map[string]string{DeadLetterTopic: "shop.in"}, nil)
	if !strings.Contains(problems, "inlet in reads topic shop.in, to which dead letters would go") {
		t.Errorf("%q", problems)
	}
}
