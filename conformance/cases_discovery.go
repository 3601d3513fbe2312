package conformance

import (
	"fmt"
	"slices"
	"strings"

	"ankka-flow/wire"
)

const (
	sectionFrames      = "1. Frames"
	sectionTypes       = "2. Types"
	sectionPipes       = "3. The process and its pipes"
	sectionStates      = "4. Who may send what, when"
	sectionSupervisor  = "5. Messages of the supervisor"
	sectionProcess     = "6. Messages of the process"
	sectionBatch       = "7. The life of a batch"
	sectionLimits      = "8. Limits"
	sectionVersions    = "10. Versions"
	sectionDescriptor  = "11. The descriptor"
	noDescriptorToday  = "no descriptor today"
	modeIsBroken       = "mode is broken"
	protocolVariable   = "ANKKA_FLOW_PROTOCOL"
	attachVariable     = "FLOW_ATTACH"
	leastConcurrency   = 4
	noSuchSocket       = "/nonexistent/attach.sock"
	refusedFirst       = "problem one: the conformance suite refuses"
	refusedSecond      = "problem two: whatever it is told"
	laterMinorProtocol = "1.99"
)

var discoveryCases = []Case{
	{
		Name: "discovery.answers-spec", Section: sectionDescriptor,
		Sentence: "discover is answered by a spec whose descriptor is valid and declares the reference streamlet",
		ask: func(t *talk) {
			t.discover()
			t.isReference()
		},
	},
	{
		Name: "discovery.reports-error", Section: sectionPipes, Env: []string{discoveryVariable + "=error"},
		Sentence: "a process that cannot describe itself says why on stderr and exits with a status other than 0, without a spec",
		ask: func(t *talk) {
			t.phase = phaseAsked
			t.send(discoverInfo)
			t.exits(-1)
			if t.failure == nil && t.spec != nil {
				t.fail("no spec", "spec")
			}
			t.says(noDescriptorToday)
		},
	},
	{
		Name: "discovery.answers-own-version", Section: sectionVersions,
		Sentence: "the spec has the process's own protocol version, whatever version discover names",
		ask: func(t *talk) {
			t.discover()
			t.start(nil)
			t.finish()
			if t.failure != nil {
				return
			}
			own := t.spec.Descriptor.ProtocolVersion
			for _, theirs := range []string{laterMinorProtocol, "99.0"} {
				info := discoverInfo
				info.Protocol = theirs
				frame := encoded(info)
				t.asks(frame)
				if t.failure == nil && t.spec.Descriptor.ProtocolVersion != own {
					t.fail(fmt.Sprintf("protocol_version %q again", own), fmt.Sprintf("protocol_version %q", t.spec.Descriptor.ProtocolVersion))
				}
				t.start(nil)
				t.finish()
			}
		},
	},
	{
		Name: "discovery.refused-exits", Section: sectionSupervisor,
		Sentence: "a process that is refused logs every problem and exits",
		ask: func(t *talk) {
			t.discover()
			t.send(wire.Refuse{Problems: []string{refusedFirst, refusedSecond}})
			t.awaitExit("the process exits after refuse")
			t.says(refusedFirst)
			t.says(refusedSecond)
		},
	},
}

// isReference holds the descriptor that came against REFERENCE.md. Descriptions are free.
func (t *talk) isReference() {
	if t.failure != nil {
		return
	}
	d := &t.spec.Descriptor
	problems := d.Validate()
	if err := wire.CheckVersion(d.ProtocolVersion); err != nil {
		problems = append(problems, err.Error())
	}
	s := d.Streamlet
	s.Description = ""
	s.Parameters = slices.Clone(s.Parameters)
	for i := range s.Parameters {
		s.Parameters[i].Description = ""
	}
	problems = append(problems, wire.Differences(&wire.Descriptor{Streamlet: reference()}, &wire.Descriptor{Streamlet: s})...)
	if n := t.spec.Capabilities.MaxInFlight; n < leastConcurrency {
		problems = append(problems, fmt.Sprintf("max_in_flight is %d; the suite needs %d batches at once", n, leastConcurrency))
	}
	if len(problems) > 0 {
		t.fail("a valid descriptor, that of REFERENCE.md", strings.ReplaceAll(strings.Join(problems, "; "), "the deployed descriptor", "REFERENCE.md"))
	}
}

// reference is what REFERENCE.md declares.
func reference() wire.Streamlet {
	port := func(name string) wire.Port {
		return wire.Port{Name: name, Contract: wire.Contract{Format: "json", SchemaName: referenceSchema, Fingerprint: wire.Fingerprint(referenceSchema)}}
	}
	return wire.Streamlet{
		Name:    referenceName,
		Inlets:  []wire.Port{port("in"), port("side")},
		Outlets: []wire.Port{port("out"), port("other")},
		Parameters: []wire.Parameter{
			{Key: "mode", Default: defaultMode},
			{Key: "factor", Type: wire.TypeInteger, Default: number(defaultFactor)},
		},
	}
}
