package driver

import (
	"strings"
	"testing"
	"testing/synctest"

	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// What the configuration names is used, for each port and for the streamlet.
func TestPlanTakesTheConfigurationsNames(t *testing.T) {
	answer := describe("app", []string{"in"}, []string{"out", "too"})
	plan, problems := NewPlan(&Declared{
		Streamlet: "router", ClientIDs: map[string]string{"in": "ci", "out": "co"}, Errors: map[string]string{"tolerance": "all"},
		Ports: map[string]NamedPort{"in": {"inlet", "f:1"}, "out": {"outlet", "f:2"}, "too": {"", "--topic"}},
	}, &answer)
	if problems != nil {
		t.Fatalf("%q", problems)
	}
	in := PlannedInlet{Port: "in", Topic: "router.in", Group: "router.router.in", ClientID: "ci"}
	if plan.Pipeline != "router" || plan.Inlets[0] != in || plan.Errors["tolerance"] != "all" {
		t.Errorf("%+v", plan)
	}
	if plan.Outlets[0].ClientID != "co" || plan.Outlets[1].ClientID != "router.router.too" {
		t.Errorf("%+v", plan.Outlets)
	}
}

// A port that the streamlet does not have is refused with the place that names it,
// once.
func TestPlanNamesThePlaceOfAWrongPort(t *testing.T) {
	answer := describe("app", []string{"in"}, []string{"out"})
	_, problems := NewPlan(&Declared{
		Topics: map[string]string{"nix": "t", "inn": "u", "out": "v"}, Groups: map[string]string{"out": "g"}, Inputs: map[string]string{"nix": "f"},
		Ports: map[string]NamedPort{"nix": {"inlet", "flow.yaml:3"}, "inn": {"", "--topic"}, "out": {"inlet", "flow.yaml:5"}, "in": {"outlet", "flow.yaml:7"}},
	}, &answer)
	want := []string{
		`flow.yaml:7 names "in" as an outlet, but it is an inlet; of that kind it has out`,
		`--topic names "inn", which the streamlet does not have; it has in, out`,
		`flow.yaml:3 names "nix", which the streamlet does not have; it has in`,
		`flow.yaml:5 names "out" as an inlet, but it is an outlet; of that kind it has in`,
	}
	if strings.Join(problems, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}
}

// Settings of error handling reach a process that applies them; one that does not
// is refused, so that they are not ignored silently.
func TestErrorSettingsNeedAProcessThatAppliesThem(t *testing.T) {
	for name, able := range map[string]bool{"able": true, "unable": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.run(func(c *Config) { c.Declared.Errors = map[string]string{"tolerance": "all"} })
				capabilities := wire.DefaultCapabilities()
				capabilities.Errors = able
				p := w.proc()
				p.say(wire.Spec{Descriptor: w.descriptor, Capabilities: capabilities})
				synctest.Wait()
				var started *wire.Start
				var refused *wire.Refuse
				for _, m := range p.take() {
					switch m := m.(type) {
					case wire.Start:
						started = &m
					case wire.Refuse:
						refused = &m
					}
				}
				if able && (started == nil || started.Errors["tolerance"] != "all") || !able && (refused == nil || started != nil) {
					t.Errorf("start %v, refuse %v", started, refused)
				}
				if able {
					w.end()
					return
				}
				p.exit(supervisor.Exited{})
				w.ended()
			})
		})
	}
}

// A secret given to a parameter that cannot take it is not quoted.
func TestPlanHidesSecretParameters(t *testing.T) {
	answer := describe("app", []string{"in"}, nil)
	answer.Streamlet.Parameters = []wire.Parameter{{Key: "size", Type: wire.TypeInteger}, {Key: "count", Type: wire.TypeInteger}}
	_, problems := NewPlan(&Declared{
		Params: map[string]string{"size": "hunter2", "count": "many"}, SecretParams: map[string]bool{"size": true, "count": false},
	}, &answer)
	all := strings.Join(problems, "\n")
	if strings.Contains(all, "hunter2") || !strings.Contains(all, `"***"`) || !strings.Contains(all, `"many"`) || len(problems) != 2 {
		t.Errorf("%s", all)
	}
}
