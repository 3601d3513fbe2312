package wire

// values is the descriptor as msgpack encodes it: the shape of its canonical
// JSON, fields at their default omitted, ports and parameters as they stand.
func (d *Descriptor) values() map[string]any {
	m := map[string]any{}
	text := func(m map[string]any, key, value string) { put(m, key, value, value != "") }
	text(m, "protocol_version", d.ProtocolVersion)
	sdk := map[string]any{}
	text(sdk, "name", d.SDK.Name)
	text(sdk, "version", d.SDK.Version)
	put(m, "sdk", sdk, len(sdk) > 0)
	s := map[string]any{}
	text(s, "name", d.Streamlet.Name)
	text(s, "description", d.Streamlet.Description)
	portValues(s, "inlets", d.Streamlet.Inlets)
	portValues(s, "outlets", d.Streamlet.Outlets)
	var params []any
	for i := range d.Streamlet.Parameters {
		p := &d.Streamlet.Parameters[i]
		v := map[string]any{}
		text(v, "key", p.Key)
		text(v, "description", p.Description)
		text(v, "default_value", p.Default)
		put(v, "type", p.Type, p.typeOf() != TypeString)
		params = append(params, v)
	}
	put(s, "config_parameters", params, len(params) > 0)
	put(m, "streamlet", s, len(s) > 0)
	return m
}

func portValues(s map[string]any, key string, ports []Port) {
	var out []any
	for i := range ports {
		c := &ports[i].Contract
		contract := map[string]any{}
		put(contract, "format", c.Format, c.Format != "")
		put(contract, "schema_name", c.SchemaName, c.SchemaName != "")
		put(contract, "fingerprint", c.Fingerprint, c.Fingerprint != "")
		port := map[string]any{}
		put(port, "name", ports[i].Name, ports[i].Name != "")
		put(port, "contract", contract, len(contract) > 0)
		out = append(out, port)
	}
	put(s, key, out, len(out) > 0)
}

// descriptor reads a descriptor's map. Its types are judged here, what it says by
// Validate: a bad name is refused with every other problem, it is no violation.
func (c *cursor) descriptor(d *Descriptor) {
	c.each(2, "descriptor", func(key string) bool {
		switch key {
		case "protocol_version":
			d.ProtocolVersion = c.str()
		case "sdk":
			d.SDK = SDK{} // of a key that comes twice the last one counts, whole
			c.each(3, "descriptor.sdk", func(key string) bool {
				return c.textFields(key, "name", &d.SDK.Name, "version", &d.SDK.Version)
			})
		case "streamlet":
			d.Streamlet = Streamlet{}
			c.each(3, "descriptor.streamlet", func(key string) bool { return c.streamlet(key, &d.Streamlet) })
		default:
			return false
		}
		return true
	})
}

func (c *cursor) streamlet(key string, s *Streamlet) bool {
	switch key {
	case "inlets":
		s.Inlets = c.ports("descriptor.streamlet.inlets[#]")
	case "outlets":
		s.Outlets = c.ports("descriptor.streamlet.outlets[#]")
	case "config_parameters":
		s.Parameters = c.parameters("descriptor.streamlet.config_parameters[#]")
	default:
		return c.textFields(key, "name", &s.Name, "description", &s.Description)
	}
	return true
}

func (c *cursor) ports(place string) []Port {
	var ports []Port
	n := c.arrayLen("array")
	for i := 0; i < n && c.err == nil; i++ {
		c.i = i
		c.at(place)
		var p Port
		c.each(5, place, func(key string) bool {
			if key != "contract" {
				return c.textFields(key, "name", &p.Name)
			}
			p.Contract = Contract{}
			c.each(6, place+".contract", func(key string) bool {
				return c.textFields(key, "format", &p.Contract.Format,
					"schema_name", &p.Contract.SchemaName, "fingerprint", &p.Contract.Fingerprint)
			})
			return true
		})
		ports = append(ports, p)
	}
	return ports
}

func (c *cursor) parameters(place string) []Parameter {
	var params []Parameter
	n := c.arrayLen("array")
	for i := 0; i < n && c.err == nil; i++ {
		c.i = i
		c.at(place)
		var p Parameter
		c.each(5, place, func(key string) bool {
			return c.textFields(key, "key", &p.Key, "description", &p.Description,
				"type", &p.Type, "default_value", &p.Default)
		})
		if p.Type == TypeString {
			p.Type = "" // the default, said: as good as left out
		}
		params = append(params, p)
	}
	return params
}

// textFields reads the value of key as text into the pointer that follows its
// name in fields, if it is there.
func (c *cursor) textFields(key string, fields ...any) bool {
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == any(key) {
			*fields[i+1].(*string) = c.str()
			return true
		}
	}
	return false
}
