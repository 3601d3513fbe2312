package driver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ankka-flow/delivery/kafka/names"
	"ankka-flow/wire"
)

// Declared is what the configuration says about a streamlet before it has
// described itself. Ports that are not named here get their defaults.
type Declared struct {
	// Pipeline is named after the streamlet where it is empty.
	Pipeline string
	// Streamlet is its name in the pipeline, in groups and client ids; empty: the
	// one that it declares.
	Streamlet string
	// Topics has port to topic; the default is <pipeline>.<port>.
	Topics map[string]string
	// Groups has inlet to consumer group; the default is
	// <pipeline>.<streamlet>.<inlet>.
	Groups map[string]string
	// ClientIDs has port to client id; the default is
	// <pipeline>.<streamlet>.<port>.
	ClientIDs map[string]string
	// Ports are the ports that the configuration names, each to be one of the
	// streamlet's.
	Ports map[string]NamedPort
	// Errors are the settings of error handling for the process; it must be able
	// to apply them.
	Errors map[string]string
	// Params has the streamlet's parameters as text.
	Params map[string]string
	// SecretParams are those whose text no problem may show.
	SecretParams map[string]bool
	// Inputs has inlet to the file that fills its topic when that is empty.
	Inputs map[string]string
	// Deployed is the descriptor that the process must match; nil: any.
	Deployed *wire.Descriptor
}

// NamedPort is a port that the configuration names.
type NamedPort struct {
	// Kind is "inlet", "outlet", or empty where it may be either.
	Kind string
	// Where is where it is named, as "--topic" or "flow.yaml:3".
	Where string
}

// Plan is what a discovery and the configuration come to: every name resolved.
type Plan struct {
	Pipeline, Streamlet string
	// Inlets and Outlets are sorted by port.
	Inlets  []PlannedInlet
	Outlets []PlannedOutlet
	// Config is every parameter in the types of the protocol.
	Config map[string]any
	// Errors are the settings of error handling, as configured.
	Errors map[string]string
}

// PlannedInlet is one inlet with its topic and group.
type PlannedInlet struct {
	Port, Topic, Group, ClientID string
	// Input is the file of --input, or empty.
	Input string
}

// PlannedOutlet is one outlet with its topic. ClientID is that of its figures.
type PlannedOutlet struct {
	Port, Topic, ClientID string
	// Replicas is the replication factor with which its topic is made, with one
	// partition, where it is missing: that of dead letters. 0: it is waited for.
	Replicas int16
}

// NewPlan resolves a process's answer to discovery. It returns every problem
// that there is, a sentence each; with any, the plan is nil and the process is
// to be refused.
func NewPlan(declared *Declared, answer *wire.Descriptor) (*Plan, []string) {
	if err := wire.CheckVersion(answer.ProtocolVersion); err != nil {
		return nil, []string{err.Error()}
	}
	problems := answer.Validate()
	if declared.Deployed != nil {
		problems = append(problems, wire.Differences(declared.Deployed, answer)...)
	}
	s := &answer.Streamlet
	p := &Plan{Pipeline: declared.Pipeline, Streamlet: orDefault(declared.Streamlet, s.Name), Errors: declared.Errors}
	if p.Pipeline == "" {
		p.Pipeline = p.Streamlet
	}
	config, configProblems := wire.ResolveConfig(s.Parameters, declared.Params)
	p.Config, problems = config, append(problems, declared.hide(configProblems)...)

	inlets, outlets := wire.PortNames(s.Inlets), wire.PortNames(s.Outlets)
	problems = append(problems, wrongPorts(declared.Ports, inlets, outlets)...)
	problems = append(problems, unknownPorts("--topic", unnamed(declared.Topics, declared.Ports), append(slices.Clone(inlets), outlets...))...)
	problems = append(problems, unknownPorts("--input", unnamed(declared.Inputs, declared.Ports), inlets)...)
	problems = append(problems, unknownPorts("group of inlet", unnamed(declared.Groups, declared.Ports), inlets)...)
	for _, port := range inlets {
		p.Inlets = append(p.Inlets, PlannedInlet{
			Port:     port,
			Topic:    orDefault(declared.Topics[port], p.Pipeline+"."+port),
			Group:    orDefault(declared.Groups[port], p.Pipeline+"."+p.Streamlet+"."+port),
			ClientID: orDefault(declared.ClientIDs[port], p.Pipeline+"."+p.Streamlet+"."+port),
			Input:    declared.Inputs[port],
		})
	}
	letters, problem := declared.deadLetterTopic(outlets)
	if problem != "" {
		problems = append(problems, problem)
	}
	for _, port := range outlets {
		topic := declared.Topics[port]
		if port == DeadLetterPort {
			topic = letters
		}
		p.Outlets = append(p.Outlets, PlannedOutlet{
			Port:     port,
			Topic:    orDefault(topic, p.Pipeline+"."+port),
			ClientID: orDefault(declared.ClientIDs[port], p.Pipeline+"."+p.Streamlet+"."+port),
			Replicas: declared.deadLetterReplicas(port),
		})
	}
	problems = append(problems, p.names(declared)...)
	problems = append(problems, p.sharedGroups()...)
	problems = append(problems, p.loops()...)
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

// names checks every topic and group by Kafka's rules, before one is made. A
// pipeline that no topic can begin with is one problem, not one a port.
func (p *Plan) names(declared *Declared) []string {
	var problems []string
	say := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", what, err))
		}
	}
	pipeline := names.CheckTopic(p.Pipeline)
	if declared.Pipeline != "" {
		say("--pipeline, with which names of topics begin", pipeline)
	} else {
		say("the pipeline, named after the streamlet", pipeline)
	}
	topic := func(port, topic string) {
		if declared.Topics[port] != "" || pipeline == nil {
			say("topic of port "+port, names.CheckTopic(topic))
		}
	}
	for _, in := range p.Inlets {
		topic(in.Port, in.Topic)
		say("group of inlet "+in.Port, names.CheckGroup(in.Group))
	}
	for _, out := range p.Outlets {
		topic(out.Port, out.Topic)
	}
	return problems
}

// loops finds inlets that would read what the streamlet itself writes, for
// ever.
func (p *Plan) loops() []string {
	var problems []string
	for _, in := range p.Inlets {
		for _, out := range p.Outlets {
			if in.Topic == out.Topic && out.Port == DeadLetterPort {
				problems = append(problems, fmt.Sprintf("inlet %s reads topic %s, to which dead letters would go, so that each comes again for ever; give them another topic (errors.%s)", in.Port, in.Topic, DeadLetterTopic))
			} else if in.Topic == out.Topic {
				problems = append(problems, fmt.Sprintf("inlet %s reads topic %s, which outlet %s writes, so the streamlet would be fed by itself for ever; give one another topic (--topic %s=TOPIC)", in.Port, in.Topic, out.Port, out.Port))
			}
		}
	}
	return problems
}

// sharedGroups finds two inlets that would read the same topic as one group:
// each would get half of it.
func (p *Plan) sharedGroups() []string {
	var problems []string
	for i, a := range p.Inlets {
		for _, b := range p.Inlets[i+1:] {
			if a.Topic == b.Topic && a.Group == b.Group {
				problems = append(problems, fmt.Sprintf("inlets %s and %s both read topic %s as group %s, so each would get only part of it; give one another topic or group", a.Port, b.Port, a.Topic, a.Group))
			}
		}
	}
	return problems
}

// InletTopics is port to topic, as the protocol's start has it.
func (p *Plan) InletTopics() map[string]string {
	topics := make(map[string]string, len(p.Inlets))
	for _, in := range p.Inlets {
		topics[in.Port] = in.Topic
	}
	return topics
}

// OutletTopics is port to topic, as the protocol's start has it.
func (p *Plan) OutletTopics() map[string]string {
	topics := make(map[string]string, len(p.Outlets))
	for _, out := range p.Outlets {
		topics[out.Port] = out.Topic
	}
	return topics
}

// Inlet finds an inlet by its port.
func (p *Plan) Inlet(port string) (PlannedInlet, bool) {
	for _, in := range p.Inlets {
		if in.Port == port {
			return in, true
		}
	}
	return PlannedInlet{}, false
}

// hide takes the texts of secret parameters out of problems, which quote them.
func (declared *Declared) hide(problems []string) []string {
	for _, name := range slices.Sorted(maps.Keys(declared.SecretParams)) {
		if !declared.SecretParams[name] {
			continue
		}
		for i := range problems {
			problems[i] = strings.ReplaceAll(problems[i], strconv.Quote(declared.Params[name]), `"***"`)
		}
	}
	return problems
}

// wrongPorts finds ports that are named and that the streamlet does not have, or
// that are of the other kind.
func wrongPorts(named map[string]NamedPort, inlets, outlets []string) []string {
	var problems []string
	for _, port := range slices.Sorted(maps.Keys(named)) {
		n := named[port]
		in, out := slices.Contains(inlets, port), slices.Contains(outlets, port)
		switch {
		case n.Kind == "inlet" && !in && out, n.Kind == "outlet" && !out && in:
			other := map[string]string{"inlet": "outlet", "outlet": "inlet"}[n.Kind]
			have := map[string][]string{"inlet": inlets, "outlet": outlets}[n.Kind]
			problems = append(problems, fmt.Sprintf("%s names %q as an %s, but it is an %s; of that kind it has %s", n.Where, port, n.Kind, other, list(have)))
		case n.Kind == "inlet" && !in:
			problems = append(problems, fmt.Sprintf("%s names %q, which the streamlet does not have; it has %s", n.Where, port, list(inlets)))
		case n.Kind == "outlet" && !out:
			problems = append(problems, fmt.Sprintf("%s names %q, which the streamlet does not have; it has %s", n.Where, port, list(outlets)))
		case !in && !out:
			problems = append(problems, fmt.Sprintf("%s names %q, which the streamlet does not have; it has %s", n.Where, port, list(append(slices.Clone(inlets), outlets...))))
		}
	}
	return problems
}

// unnamed leaves those out whose place is known, which wrongPorts looks at.
func unnamed(given map[string]string, named map[string]NamedPort) map[string]string {
	rest := maps.Clone(given)
	maps.DeleteFunc(rest, func(port, _ string) bool { _, ok := named[port]; return ok })
	return rest
}

func unknownPorts(what string, named map[string]string, ports []string) []string {
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !slices.Contains(ports, name) {
			problems = append(problems, fmt.Sprintf("%s names %q, which the streamlet does not have; it has %s", what, name, list(ports)))
		}
	}
	return problems
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	out := names[0]
	for _, n := range names[1:] {
		out += ", " + n
	}
	return out
}

func orDefault(value, otherwise string) string {
	if value != "" {
		return value
	}
	return otherwise
}
