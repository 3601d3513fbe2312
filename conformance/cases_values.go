package conformance

import (
	"ankka-flow/delivery/record"
)

// Bytes, null and empty. Every record goes out encoded anew (header-echo) unless it is to be
// forwarded.
var valueCases = []Case{
	{
		Name: "stdio.null-and-empty-key", Section: sectionTypes,
		Sentence: "a key that is null stays null, an empty one empty",
		ask: func(t *talk) {
			t.beginIn("header-echo")
			t.headersEchoed(t.batch("in", 0, record.Record{Value: []byte("v")}, record.Record{Key: []byte{}, Value: []byte("v")}))
			t.anewIn("echo")
			t.echoed(t.batch("in", 0, record.Record{Value: []byte("v")}, record.Record{Key: []byte{}, Value: []byte("v")}))
		},
	},
	{
		Name: "stdio.null-and-empty-value", Section: sectionTypes,
		Sentence: "a value that is null (a tombstone) stays null, an empty one empty",
		ask: func(t *talk) {
			t.begin()
			t.headersEchoed(t.batch("in", 0, record.Record{Key: []byte("header-echo:n")}, rec("header-echo:e", "")))
			t.echoed(t.batch("in", 0, record.Record{Key: []byte("echo:n")}, rec("echo:e", "")))
		},
	},
	{
		Name: "stdio.null-and-empty-header-value", Section: sectionTypes,
		Sentence: "a header's value that is null stays null, an empty one empty",
		ask: func(t *talk) {
			t.begin()
			null, empty := record.Header{Name: []byte("h")}, header("h", "")
			t.headersEchoed(t.batch("in", 0, rec("header-echo:1", "v", null, empty, null), rec("header-echo:2", "v", empty)))
			t.echoed(t.batch("in", 0, rec("echo", "v", null, empty)))
		},
	},
	{
		Name: "stdio.header-names-are-bytes", Section: sectionTypes,
		Sentence: "a header's name that is no UTF-8, or empty, comes through as it is",
		ask: func(t *talk) {
			t.begin()
			r := rec("header-echo", "v", header("\xff\xfe", "1"), header("", "2"), header("na\u00efve", "3"), header("nul\x00", "4"), header("\xc3", "5"))
			t.headersEchoed(t.batch("in", 0, r))
		},
	},
	{
		Name: "stdio.every-byte", Section: sectionTypes,
		Sentence: "every one of the 256 bytes comes through in key, value, header name and header value",
		ask: func(t *talk) {
			t.beginIn("header-echo")
			all := make([]byte, 256)
			for i := range all {
				all[i] = byte(i)
			}
			t.headersEchoed(t.batch("in", 0, record.Record{Key: all, Value: all, Headers: []record.Header{{Name: all, Value: all}}}))
		},
	},
	{
		Name: "stdio.forward-all", Section: sectionProcess,
		Sentence: "a batch of records that all go on unchanged comes out whole, in order",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, rec("echo:1", "a"), rec("echo:2", "b", header("h", "v")), rec("echo:3", "c")))
		},
	},
	{
		Name: "stdio.forward-some", Section: sectionProcess,
		Sentence: "where some records go on unchanged, just those come out, in order, among what is emitted anew",
		ask: func(t *talk) {
			t.begin()
			b := t.batch("in", 0, rec("skip", "a"), rec("echo", "b"), rec("multiply", "4"), rec("echo", "c"), rec("skip", "d"), rec("echo", "e"))
			t.acked(b)
			t.emits(b, "out", rec("echo", "b"), rec("multiply", "8"), rec("echo", "c"), rec("echo", "e"))
		},
	},
	{
		Name: "stdio.forward-repeated", Section: sectionProcess,
		Sentence: "a record may go on unchanged more than once, to one outlet and to another",
		ask: func(t *talk) {
			t.begin()
			a, b := rec("fan", "a", header("h", "")), rec("echo", "b")
			sent := t.batch("in", 0, b, a, b)
			t.acked(sent)
			t.emits(sent, "out", b, a, a, b)
			t.emits(sent, "other", a)
		},
	},
}

// anewIn ends the conversation and begins one in which word is done with every record.
func (t *talk) anewIn(word string) {
	t.finish()
	t.beginIn(word)
}
