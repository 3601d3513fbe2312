package delivery

import "testing"

// An inlet may have limits of its own; what it leaves open is as for the others. With
// a number of records its batches do not adapt.
func TestAnInletsBatchesHaveItsOwnLimits(t *testing.T) {
	cfg := Config{MaxBytes: 1000, Batches: map[string]BatchLimit{"a": {MaxRecords: 7}, "b": {MaxBytes: 500}}}
	r := &rig{t: t, core: New(cfg)}
	r.all(`Ticked`, `Launched process=1 pid=1`, `SpecGood process=1 inlets=["a","b","c"] outlets=["out"] maxInFlight=8`,
		`Assigned inlet="a" generation=1 starts=[0@0]`, `Assigned inlet="b" generation=1 starts=[0@0]`, `Assigned inlet="c" generation=1 starts=[0@0]`)
	r.want(`Fetched tp=a/0`, `Deliver process=1 id=1 tp=a/0 attempt=1 maxRecords=7 maxBytes=1000`)
	r.do(`Cut id=1 next=7 records=7 bytes=70 more`)
	r.want(`Fetched tp=b/0`, `Deliver process=1 id=2 tp=b/0 attempt=1 maxRecords=100 maxBytes=500`)
	r.do(`Cut id=2 next=100 records=100 bytes=70 more`)
	r.want(`Fetched tp=c/0`, `Deliver process=1 id=3 tp=c/0 attempt=1 maxRecords=100 maxBytes=1000`)
	r.do(`Cut id=3 next=1 records=1 bytes=70`)
	// Both were full and fast: only the one without a number grows.
	r.want(`Acked process=1 id=1`, `Drop id=1`, `Deliver process=1 id=4 tp=a/0 offset=7 attempt=1 maxRecords=7`, `Commit`)
	r.do(`Cut id=4 next=14 records=7 bytes=70`)
	r.want(`Acked process=1 id=2`, `Drop id=2`, `Deliver process=1 id=5 tp=b/0 offset=100 attempt=1 maxRecords=200`, `Commit`)
}

// What is with the process is bounded for whichever inlet comes next.
func TestR10_TheBytesBoundCountsTheLargestBatchThatMayCome(t *testing.T) {
	r := &rig{t: t, core: New(Config{MaxRecords: 5, MaxBytes: 100, WithProcess: 1000, Batches: map[string]BatchLimit{"b": {MaxBytes: 950}}})}
	r.all(`Ticked`, `Launched process=1 pid=1`, `SpecGood process=1 inlets=["a","b"] outlets=["out"] maxInFlight=8`,
		`Assigned inlet="a" generation=1 starts=[0@0]`, `Assigned inlet="b" generation=1 starts=[0@0]`,
		`Fetched tp=a/0`, `Cut id=1 next=1 records=1 bytes=60`)
	r.want(`Fetched tp=b/0`) // 60 with the process, and up to 950 more
	r.want(`Acked process=1 id=1`, `Drop id=1`, `Deliver process=1 id=2 tp=b/0 attempt=1 maxRecords=5 maxBytes=950`, `Commit`)
}

func TestANegativeLimitOfAnInletIsRefused(t *testing.T) {
	for _, l := range []BatchLimit{{MaxRecords: -1}, {MaxBytes: -1}} {
		if err := (Config{Batches: map[string]BatchLimit{"in": l}}).Validate(); err == nil {
			t.Errorf("%+v was taken", l)
		}
	}
}
