package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// CanonicalJSON is the descriptor as a file holds it, equal bytes for equal
// declarations in every language: object keys sorted, ports sorted by name,
// parameters by key, fields at their default omitted, two spaces, LF, one
// newline at the end, no byte-order mark.
func (d *Descriptor) CanonicalJSON() []byte {
	sorted := *d
	s := &sorted.Streamlet
	s.Inlets = sortedPorts(s.Inlets)
	s.Outlets = sortedPorts(s.Outlets)
	s.Parameters = append([]Parameter(nil), s.Parameters...)
	sort.SliceStable(s.Parameters, func(i, j int) bool { return s.Parameters[i].Key < s.Parameters[j].Key })
	return append(appendJSON(nil, sorted.values(), "\n"), '\n')
}

func sortedPorts(ports []Port) []Port {
	ports = append([]Port(nil), ports...)
	sort.SliceStable(ports, func(i, j int) bool { return ports[i].Name < ports[j].Name })
	return ports
}

// appendJSON appends v (a map, an array or a text); newline is a line's end and
// the indentation of the next.
func appendJSON(dst []byte, v any, newline string) []byte {
	inner := newline + "  "
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return append(dst, "{}"...)
		}
		sep := "{"
		for _, k := range unionOf(v, nil) {
			dst = append(append(dst, sep...), inner...)
			dst = append(appendJSONText(dst, k), ": "...)
			dst = appendJSON(dst, v[k], inner)
			sep = ","
		}
		return append(append(dst, newline...), '}')
	case []any:
		sep := "["
		for _, e := range v {
			dst = append(append(dst, sep...), inner...)
			dst = appendJSON(dst, e, inner)
			sep = ","
		}
		return append(append(dst, newline...), ']')
	}
	return appendJSONText(dst, v.(string))
}

// appendJSONText appends s in double quotes, escaping only what JSON must have
// escaped. encoding/json was rejected for it always escapes U+2028 and U+2029,
// which other languages' writers do not: the bytes would differ.
func appendJSONText(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			dst = append(dst, '\\', byte(r))
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		default:
			if r < 0x20 {
				dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		}
	}
	return append(dst, '"')
}

// ProblemsError is every problem found with one thing, a sentence each.
type ProblemsError struct {
	What     string // as "the descriptor"
	Problems []string
}

// Error joins the problems, each on a line of its own where there are several.
func (e *ProblemsError) Error() string {
	if len(e.Problems) == 1 {
		return e.What + ": " + e.Problems[0]
	}
	return fmt.Sprintf("%s has %d problems:\n  %s", e.What, len(e.Problems), strings.Join(e.Problems, "\n  "))
}

// ParseDescriptorJSON reads a descriptor file, strictly: an unknown key, a value
// of the wrong type, a key given twice and everything that Validate refuses is a
// problem, and a *ProblemsError names them all at once. The form need not be
// canonical, and a byte-order mark is refused. It is for whoever deployed the
// file, who should have it written by the descriptor command.
func ParseDescriptorJSON(text []byte) (*Descriptor, error) {
	fail := func(p problems) (*Descriptor, error) {
		return nil, &ProblemsError{What: "the descriptor", Problems: p}
	}
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return fail(problems{"it begins with a byte-order mark; save it without one"})
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	r := jsonReader{dec: dec}
	value, err := r.value(0)
	if err == nil && dec.More() {
		err = errors.New("text follows the object")
	}
	if err != nil {
		return fail(problems{fmt.Sprintf("it is not JSON: %v", err)})
	}
	p := r.problems
	var d Descriptor
	p.object("", value, map[string]func(string, any){
		"protocol_version": p.text(&d.ProtocolVersion),
		"sdk": p.inObject(map[string]func(string, any){
			"name": p.text(&d.SDK.Name), "version": p.text(&d.SDK.Version),
		}),
		"streamlet": p.inObject(map[string]func(string, any){
			"name": p.text(&d.Streamlet.Name), "description": p.text(&d.Streamlet.Description),
			"inlets": p.portList(&d.Streamlet.Inlets), "outlets": p.portList(&d.Streamlet.Outlets),
			"config_parameters": p.parameterList(&d.Streamlet.Parameters),
		}),
	})
	if len(p) == 0 {
		p = append(p, d.Validate()...)
	}
	if len(p) > 0 {
		return fail(p)
	}
	return &d, nil
}

// jsonReader reads any JSON as maps, arrays and scalars; encoding/json itself
// lets a key given twice pass, whose first value would be silently lost.
type jsonReader struct {
	dec      *json.Decoder
	problems problems
}

func (r *jsonReader) value(depth int) (any, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if depth > MaxDepth {
		return nil, fmt.Errorf("it nests deeper than %d", MaxDepth)
	}
	switch token {
	case json.Delim('{'):
		m := map[string]any{}
		for r.dec.More() {
			key, err := r.dec.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			if _, twice := m[name]; twice {
				r.problems.add("key %q is given twice", name)
			}
			if m[name], err = r.value(depth + 1); err != nil {
				return nil, err
			}
		}
		_, err = r.dec.Token()
		return m, err
	case json.Delim('['):
		var all []any
		for r.dec.More() {
			v, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		_, err = r.dec.Token()
		return all, err
	}
	return token, nil
}

// object hands each of value's keys to its reader in known, and names those that
// have none. at is where value stands, "" for the whole.
func (p *problems) object(at string, value any, known map[string]func(string, any)) {
	m, ok := value.(map[string]any)
	if !ok {
		p.add("%s must be an object", orWhole(at))
		return
	}
	for _, key := range unionOf(m, nil) {
		path := key
		if at != "" {
			path = at + "." + key
		}
		if read := known[key]; read != nil {
			read(path, m[key])
			continue
		}
		p.add("%s is no known key%s", path, didYouMean(key, unionOf(known, nil)))
	}
}

func orWhole(at string) string {
	if at == "" {
		return "the whole"
	}
	return at
}

func (p *problems) inObject(known map[string]func(string, any)) func(string, any) {
	return func(at string, v any) { p.object(at, v, known) }
}

func (p *problems) text(into *string) func(string, any) {
	return func(at string, v any) {
		s, ok := v.(string)
		if !ok {
			p.add("%s must be a text", at)
		}
		*into = s
	}
}

// each hands every element of an array to read.
func (p *problems) each(at string, v any, read func(at string, v any)) {
	all, ok := v.([]any)
	if _, null := v.(map[string]any); !ok && (v != nil || null) {
		p.add("%s must be an array", at)
	}
	for i, e := range all {
		read(fmt.Sprintf("%s[%d]", at, i), e)
	}
}

func (p *problems) portList(into *[]Port) func(string, any) {
	return func(at string, v any) {
		p.each(at, v, func(at string, v any) {
			var port Port
			p.object(at, v, map[string]func(string, any){
				"name": p.text(&port.Name),
				"contract": p.inObject(map[string]func(string, any){
					"format": p.text(&port.Contract.Format), "schema_name": p.text(&port.Contract.SchemaName),
					"fingerprint": p.text(&port.Contract.Fingerprint),
				}),
			})
			*into = append(*into, port)
		})
	}
}

func (p *problems) parameterList(into *[]Parameter) func(string, any) {
	return func(at string, v any) {
		p.each(at, v, func(at string, v any) {
			var param Parameter
			p.object(at, v, map[string]func(string, any){
				"key": p.text(&param.Key), "description": p.text(&param.Description),
				"type": p.text(&param.Type), "default_value": p.text(&param.Default),
			})
			if param.Type == TypeString {
				param.Type = ""
			}
			*into = append(*into, param)
		})
	}
}
