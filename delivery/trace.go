package delivery

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// trace writes an event or an action as one line, the format of the scripts in
// testdata: its name, then field=value for every field that is not zero, and only
// the field's name where it is true. It reflects, because fifty hand-written String
// methods would drift from their structs; nothing calls it on the hot path.
func trace(x any) string {
	v := reflect.ValueOf(x)
	var b strings.Builder
	b.WriteString(v.Type().Name())
	for i := range v.NumField() {
		if _, kind := v.Field(i).Interface().(NoteKind); v.Field(i).IsZero() && !kind {
			continue
		}
		b.WriteByte(' ')
		b.WriteString(fieldName(v.Type().Field(i).Name))
		if v.Field(i).Kind() == reflect.Bool {
			continue
		}
		b.WriteByte('=')
		b.WriteString(traceValue(v.Field(i).Interface()))
	}
	return b.String()
}

// fieldName is a field's name in the trace: MaxBytes is maxBytes, TP is tp.
func fieldName(name string) string {
	if strings.ToUpper(name) == name {
		return strings.ToLower(name)
	}
	return strings.ToLower(name[:1]) + name[1:]
}

func traceValue(x any) string {
	switch x := x.(type) {
	case TP:
		return x.String()
	case string:
		return strconv.Quote(x)
	case time.Duration:
		return x.String()
	case CommitOutcome:
		return x.String()
	case NoteKind:
		return x.String()
	case []TP:
		return traceList(x, TP.String)
	case []string:
		return traceList(x, strconv.Quote)
	case []int32:
		return traceList(x, func(n int32) string { return strconv.Itoa(int(n)) })
	case []Start:
		return traceList(x, Start.String)
	case []PartitionOffset:
		return traceList(x, PartitionOffset.String)
	default:
		return fmt.Sprint(x)
	}
}

func traceList[T any](xs []T, f func(T) string) string {
	parts := make([]string, len(xs))
	for i, x := range xs {
		parts[i] = f(x)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// String is the partition as inlet/partition.
func (tp TP) String() string { return tp.Inlet + "/" + strconv.Itoa(int(tp.Partition)) }

// String is partition@offset, with a question mark behind an offset that had to
// be looked up.
func (s Start) String() string {
	if s.LookedUp {
		return fmt.Sprintf("%d@%d?", s.Partition, s.Offset)
	}
	return fmt.Sprintf("%d@%d", s.Partition, s.Offset)
}

// String is partition@offset.
func (o PartitionOffset) String() string { return fmt.Sprintf("%d@%d", o.Partition, o.Offset) }

var outcomeNames = [...]string{"done", "retry", "stale", "refused"}

// String is the outcome's word in the trace.
func (o CommitOutcome) String() string { return nameOf(outcomeNames[:], int(o)) }

var noteNames = [...]string{"ready", "failed", "waiting", "stopping", "reloading", "partition", "process", "convicted", "accused", "acquitted"}

// String is the kind's word in the trace.
func (k NoteKind) String() string { return nameOf(noteNames[:], int(k)) }

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return strconv.Itoa(i)
	}
	return names[i]
}
