package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sort"
	"strings"
)

// Descriptor is a streamlet's declaration and who made it: what Spec carries and
// what a descriptor file holds (section "Descriptor" of PROTOCOL.md). Ports and
// parameters may stand in any order; it means nothing.
type Descriptor struct {
	ProtocolVersion string // MAJOR.MINOR
	SDK             SDK
	Streamlet       Streamlet
}

// SDK names what wrote a descriptor.
type SDK struct {
	Name, Version string // free text
}

// Streamlet is what is compared with a deployed descriptor.
type Streamlet struct {
	Name        string // [a-z0-9-]{1,63}, no hyphen at an end
	Description string
	Inlets      []Port
	Outlets     []Port
	Parameters  []Parameter // config_parameters
}

// Port is an inlet or outlet.
type Port struct {
	Name     string // [a-z][a-z0-9-]{0,62}, unique across both
	Contract Contract
}

// Contract is what a port carries.
type Contract struct {
	Format      string // "json"
	SchemaName  string // not empty
	Fingerprint string // Fingerprint(SchemaName)
}

// Parameter is a configuration parameter.
type Parameter struct {
	Key         string // [a-z][a-z0-9-]*
	Description string
	// Type is one of the Type constants; "" is TypeString.
	Type string
	// Default is text of the type; "" is no default: the parameter is required.
	// (So a STRING cannot default to the empty text: the canonical form, which
	// omits empty fields, has no way to say it.)
	Default string
}

// The types of a parameter.
const (
	TypeString     = "STRING"
	TypeInteger    = "INTEGER"
	TypeDouble     = "DOUBLE"
	TypeBoolean    = "BOOLEAN"
	TypeDuration   = "DURATION"
	TypeMemorySize = "MEMORY_SIZE"
)

var types = []string{TypeString, TypeInteger, TypeDouble, TypeBoolean, TypeDuration, TypeMemorySize}

// typeOf is the parameter's type, with its default in place.
func (p *Parameter) typeOf() string {
	if p.Type == "" {
		return TypeString
	}
	return p.Type
}

// Fingerprint is a contract's: Base64 (standard, padded) of the SHA-256 of the
// schema's name.
func Fingerprint(schemaName string) string {
	sum := sha256.Sum256([]byte(schemaName))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// PortNames are the names of ports, sorted.
func PortNames(ports []Port) []string {
	names := make([]string, len(ports))
	for i := range ports {
		names[i] = ports[i].Name
	}
	sort.Strings(names)
	return names
}

// Validate is every problem of the descriptor, a sentence each; nil where there
// is none. They are for the streamlet's author. Whether the protocol version
// fits is CheckVersion's to say, only its form is judged here.
func (d *Descriptor) Validate() []string {
	var p problems
	if _, _, ok := parseVersion(d.ProtocolVersion); !ok {
		p.add("protocol_version %q is not MAJOR.MINOR, as %q", d.ProtocolVersion, Version)
	}
	s := &d.Streamlet
	if !validName(s.Name) {
		p.add("streamlet.name %q must be 1 to 63 of a-z, 0-9 and -, without a - at either end", s.Name)
	}
	if len(s.Inlets)+len(s.Outlets) == 0 {
		p.add("the streamlet declares neither inlets nor outlets: nothing could reach it or leave it")
	}
	seen := map[string]string{}
	p.ports("inlet", s.Inlets, seen)
	p.ports("outlet", s.Outlets, seen)
	p.parameters(s.Parameters)
	return p
}

type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func (p *problems) ports(side string, ports []Port, seen map[string]string) {
	for i := range ports {
		port := &ports[i]
		at := fmt.Sprintf("%s %q", side, port.Name)
		if !validPort(port.Name) {
			p.add("%s: its name must be a letter a-z, then at most 62 of a-z, 0-9 and -", at)
		}
		if other, twice := seen[port.Name]; twice {
			p.add("%s: the name is already that of an %s; names are unique across inlets and outlets", at, other)
		}
		seen[port.Name] = side
		c := &port.Contract
		if c.Format != "json" {
			p.add("%s: contract.format is %q; \"json\" is the only format", at, c.Format)
		}
		if c.SchemaName == "" {
			p.add("%s: contract.schema_name is missing", at)
		} else if want := Fingerprint(c.SchemaName); c.Fingerprint != want {
			p.add("%s: contract.fingerprint is %q, but that of schema_name %q is %q", at, c.Fingerprint, c.SchemaName, want)
		}
	}
}

func (p *problems) parameters(params []Parameter) {
	seen := map[string]bool{}
	for i := range params {
		param := &params[i]
		at := fmt.Sprintf("parameter %q", param.Key)
		if !validKey(param.Key) {
			p.add("%s: its key must be a letter a-z, then a-z, 0-9 and -", at)
		}
		if seen[param.Key] {
			p.add("%s: the key is declared twice", at)
		}
		seen[param.Key] = true
		if !contains(types, param.typeOf()) {
			p.add("%s: type %q is none of %s", at, param.Type, strings.Join(types, ", "))
		} else if param.Default != "" {
			if _, err := ParseValue(param.typeOf(), param.Default); err != nil {
				p.add("%s: its default %v", at, err)
			}
		}
	}
}

func contains(all []string, s string) bool {
	for _, a := range all {
		if a == s {
			return true
		}
	}
	return false
}

// validName: [a-z0-9-]{1,63}, no hyphen at an end.
func validName(s string) bool {
	return len(s) >= 1 && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && onlyNameBytes(s)
}

// validPort: [a-z][a-z0-9-]{0,62}.
func validPort(s string) bool { return len(s) <= 63 && validKey(s) }

// validKey: [a-z][a-z0-9-]*.
func validKey(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && onlyNameBytes(s)
}

func onlyNameBytes(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Differences is every difference between a deployed descriptor's streamlet and
// the one that the process answered, a sentence each; nil where they are equal.
// They are for whoever deployed it, and refuse the process. The protocol version
// and the SDK are not compared.
func Differences(deployed, answered *Descriptor) []string {
	var p problems
	a, b := &deployed.Streamlet, &answered.Streamlet
	p.differ("the streamlet's name", a.Name, b.Name)
	p.differ("the streamlet's description", a.Description, b.Description)
	p.portsDiffer("inlet", a.Inlets, b.Inlets)
	p.portsDiffer("outlet", a.Outlets, b.Outlets)
	p.parametersDiffer(a.Parameters, b.Parameters)
	return p
}

func (p *problems) differ(what, deployed, answered string) {
	if deployed != answered {
		p.add("%s is %q in the deployed descriptor, %q in the process's", what, deployed, answered)
	}
}

func (p *problems) portsDiffer(side string, deployed, answered []Port) {
	a, b := byName(deployed), byName(answered)
	for _, name := range unionOf(a, b) {
		x, inA := a[name]
		y, inB := b[name]
		at := fmt.Sprintf("%s %q", side, name)
		switch {
		case !inB:
			p.add("%s is in the deployed descriptor, the process does not declare it", at)
		case !inA:
			p.add("%s is declared by the process, the deployed descriptor does not have it", at)
		default:
			p.differ(at+": contract.format", x.Contract.Format, y.Contract.Format)
			p.differ(at+": contract.schema_name", x.Contract.SchemaName, y.Contract.SchemaName)
			p.differ(at+": contract.fingerprint", x.Contract.Fingerprint, y.Contract.Fingerprint)
		}
	}
}

func (p *problems) parametersDiffer(deployed, answered []Parameter) {
	a, b := byKey(deployed), byKey(answered)
	for _, key := range unionOf(a, b) {
		x, inA := a[key]
		y, inB := b[key]
		at := fmt.Sprintf("parameter %q", key)
		switch {
		case !inB:
			p.add("%s is in the deployed descriptor, the process does not declare it", at)
		case !inA:
			p.add("%s is declared by the process, the deployed descriptor does not have it", at)
		default:
			p.differ(at+": type", x.typeOf(), y.typeOf())
			p.differ(at+": default_value", x.Default, y.Default)
			p.differ(at+": description", x.Description, y.Description)
		}
	}
}

func byName(ports []Port) map[string]Port {
	m := make(map[string]Port, len(ports))
	for _, p := range ports {
		m[p.Name] = p
	}
	return m
}

func byKey(params []Parameter) map[string]Parameter {
	m := make(map[string]Parameter, len(params))
	for _, p := range params {
		m[p.Key] = p
	}
	return m
}

// unionOf is the keys of both, sorted.
func unionOf[T any](a, b map[string]T) []string {
	var keys []string
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	return keys
}
