package driver

import (
	"fmt"
	"time"

	"ankka-flow/delivery"
)

// commitsRefusedAfter is how long an inlet's commits may be put off before
// people hear of it. A coordinator that moves or loads takes less.
const commitsRefusedAfter = 5 * time.Second

// commitTrouble is a run of commits that the group put off; nothing is lost by
// it, but nothing is committed either, and only the lag would tell.
type commitTrouble struct {
	since  time.Duration // of the first one
	lasts  bool
	warned bool
}

// noticeRefusals says once that commits do not get through, and why, and once
// that they do again. The end of a generation is said by the membership.
func (d *Driver) noticeRefusals(in *consumed, ev delivery.Committed) {
	trouble := &in.trouble
	switch ev.Outcome {
	case delivery.CommitDone:
		if trouble.warned {
			d.log.Info(fmt.Sprintf("the commits of inlet %s get through again", in.port), "event", "group", "inlet", in.port)
		}
		*trouble = commitTrouble{}
	case delivery.CommitRetry:
		now := d.now()
		if !trouble.lasts {
			*trouble = commitTrouble{since: now, lasts: true}
		}
		if !trouble.warned && now-trouble.since >= commitsRefusedAfter {
			trouble.warned = true
			d.log.Warn(fmt.Sprintf("the commits of inlet %s have not got through for %v: %s; trying again", in.port, commitsRefusedAfter, ev.Reason), "event", "group", "inlet", in.port, "error", ev.Reason)
		}
	}
}
