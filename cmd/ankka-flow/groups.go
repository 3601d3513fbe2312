package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/kafka/names"
)

func newGroups(a *app) *cobra.Command {
	var f adminFlags
	parent := &cobra.Command{
		Use:     "groups",
		Short:   "List, describe and move the groups that read topics",
		Example: "  ankka-flow groups describe cart-router.cart-router.in",
		RunE:    noCommand,
	}
	list := &cobra.Command{
		Use: "list", Short: "Print every group, a line each",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse("groups list takes no arguments, but there is %q", args[0])
			}
			return a.administer(cmd.Context(), &f, (*connection).listGroups)
		},
	}
	list.Flags().BoolVar(&f.json, "json", false, "as JSON, a line each")
	describe := &cobra.Command{
		Use: "describe GROUP...", Short: "Print what groups have committed, how far they are behind, and who reads",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse("groups describe takes a group or several: %s", cmd.UseLine())
			}
			for _, name := range args {
				if err := names.CheckGroup(name); err != nil {
					return misuse("%w", err)
				}
			}
			return a.administer(cmd.Context(), &f, func(c *connection, ctx context.Context, out *output) error {
				return c.describeGroups(ctx, out, args)
			})
		},
	}
	describe.Flags().BoolVar(&f.json, "json", false, "as JSON, a line for each group")
	seek := &cobra.Command{
		Use: "seek GROUP TOPIC PARTITION OFFSET --yes", Short: "Set where a stopped group goes on reading a partition",
		Long: `seek commits an offset for a group on one partition: N, the number of the next record to read;
start, the first record that is there; or end, behind the last one. The group must exist and have no
members: stop what reads first. Records between the old place and the new one are read again, or never.`,
		Example: "  ankka-flow groups seek cart-router.cart-router.in cart-router.in 0 start --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			move, err := parseSeek(cmd, args, f.yes)
			if err != nil {
				return err
			}
			return a.administer(cmd.Context(), &f, func(c *connection, ctx context.Context, out *output) error {
				return c.seek(ctx, out, move)
			})
		},
	}
	seek.Flags().BoolVar(&f.yes, "yes", false, "do it; without it nothing is done")
	f.children(parent, list, describe, seek)
	return parent
}

// seekTo is what `groups seek` is told.
type seekTo struct {
	group, topic string
	partition    partitionFlag
	// offset is one, or kafka.Earliest or kafka.Latest.
	offset int64
}

func parseSeek(cmd *cobra.Command, args []string, yes bool) (*seekTo, error) {
	if len(args) != 4 {
		return nil, misuse("groups seek takes a group, a topic, a partition and an offset: %s", cmd.UseLine())
	}
	to := &seekTo{group: args[0], topic: args[1]}
	problems := []error{names.CheckGroup(to.group), names.CheckTopic(to.topic)}
	if err := to.partition.Set(args[2]); err != nil {
		problems = append(problems, fmt.Errorf("PARTITION %q: %w", args[2], err))
	}
	switch args[3] {
	case "start":
		to.offset = kafka.Earliest
	case "end":
		to.offset = kafka.Latest
	default:
		var err error
		if to.offset, err = strconv.ParseInt(args[3], 10, 64); err != nil || to.offset < 0 {
			problems = append(problems, fmt.Errorf("OFFSET %q: it is start, end or N, from 0", args[3]))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, misuse("%w", err)
	}
	if !yes {
		return nil, misuse("groups seek changes what group %s reads next of %s/%d: say so with --yes", to.group, to.topic, to.partition)
	}
	return to, nil
}

func (c *connection) listGroups(ctx context.Context, out *output) error {
	names, err := c.client.ListGroups(ctx)
	if err != nil {
		return err
	}
	if !out.json {
		out.row("GROUP", "STATE", "MEMBERS")
	}
	for _, name := range names {
		g, err := c.client.DescribeGroup(ctx, name)
		if err != nil {
			return err
		}
		state, members := stateOf(&g)
		if !out.json {
			out.row(name, state, members)
			continue
		}
		err = out.line(struct {
			Group   string  `json:"group"`
			State   *string `json:"state"`
			Members *int64  `json:"members"`
		}{name, knownText(state), known(members)})
		if err != nil {
			return err
		}
	}
	return nil
}

// stateOf is the state and the number of members of a group that exists. One of
// another protocol is described as dead: of it neither is known.
func stateOf(g *kafka.GroupDetail) (state string, members int64) {
	if g.State == kafka.GroupDead {
		return "", -1
	}
	return g.State, int64(len(g.Members))
}

// knownText is a text for JSON, null where it is not known.
func knownText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// groupMember is a member as JSON.
type groupMember struct {
	Member   string  `json:"member"`
	Instance *string `json:"instance"`
	Client   string  `json:"client"`
	Host     string  `json:"host"`
}

// groupPlace is where a group is on a partition; null: not known, or none.
type groupPlace struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Committed *int64  `json:"committed"`
	End       *int64  `json:"end"`
	Lag       *int64  `json:"lag"`
	Member    *string `json:"member"`
	host      string
}

func (c *connection) describeGroups(ctx context.Context, out *output, names []string) error {
	var groups []kafka.GroupDetail
	var problems []error
	for _, name := range names {
		g, err := c.group(ctx, name)
		groups, problems = append(groups, g), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if !out.json {
		out.row("GROUP", "STATE", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST")
	}
	for i := range groups {
		g := &groups[i]
		places, err := c.groupPlaces(ctx, g)
		if err != nil {
			return err
		}
		if out.json {
			err = out.line(groupAsJSON(g, places))
		} else {
			groupRows(out, g, places)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// group describes a group that exists.
func (c *connection) group(ctx context.Context, name string) (kafka.GroupDetail, error) {
	g, err := c.client.DescribeGroup(ctx, name)
	if err != nil || g.State != kafka.GroupDead {
		return g, err
	}
	all, err := c.client.ListGroups(ctx)
	if err == nil && !slices.Contains(all, name) {
		err = c.missing(ctx, "group", name, func(context.Context) ([]string, error) { return all, nil })
	}
	return g, err
}

// groupPlaces is every partition on which a group has committed or that a
// member reads, in order.
func (c *connection) groupPlaces(ctx context.Context, g *kafka.GroupDetail) ([]groupPlace, error) {
	commits, err := c.client.GroupOffsets(ctx, g.Name)
	if err != nil {
		return nil, err
	}
	type key struct {
		topic     string
		partition int32
	}
	byPartition := map[key]groupPlace{}
	topics := map[string]bool{}
	for topic, offsets := range commits {
		topics[topic] = true
		for partition, offset := range offsets {
			byPartition[key{topic, partition}] = groupPlace{Topic: topic, Partition: partition, Committed: &offset}
		}
	}
	for _, m := range g.Members {
		for topic, partitions := range m.Partitions {
			topics[topic] = true
			for _, partition := range partitions {
				p := byPartition[key{topic, partition}]
				p.Topic, p.Partition, p.Member, p.host = topic, partition, &m.ID, m.Host
				byPartition[key{topic, partition}] = p
			}
		}
	}
	ends, err := c.ends(ctx, slices.Sorted(maps.Keys(topics)))
	if err != nil {
		return nil, err
	}
	places := []groupPlace{}
	for k, p := range byPartition {
		p.End = known(at(ends[k.topic], k.partition))
		if p.End != nil && p.Committed != nil {
			lag := max(0, *p.End-*p.Committed)
			p.Lag = &lag
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b groupPlace) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return places, nil
}

// ends are the next offsets of topics; none for a topic that is gone since the
// group committed on it, or that we may not see.
func (c *connection) ends(ctx context.Context, names []string) (map[string]map[int32]int64, error) {
	ends := map[string]map[int32]int64{}
	if len(names) == 0 {
		return ends, nil // no names would be all topics
	}
	topics, err := c.client.DescribeTopics(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		if ends[t.Name], err = c.offsetsAt(ctx, &t, kafka.Latest); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

func groupAsJSON(g *kafka.GroupDetail, places []groupPlace) any {
	members := []groupMember{}
	for _, m := range g.Members {
		members = append(members, groupMember{m.ID, knownText(m.Instance), m.Client, m.Host})
	}
	state, _ := stateOf(g)
	return struct {
		Group      string        `json:"group"`
		State      *string       `json:"state"`
		Members    []groupMember `json:"members"`
		Partitions []groupPlace  `json:"partitions"`
	}{g.Name, knownText(state), members, places}
}

// groupRows prints a row for each partition, and for each member without one: who
// waits in vain is seen too.
func groupRows(out *output, g *kafka.GroupDetail, places []groupPlace) {
	state, _ := stateOf(g)
	for _, p := range places {
		member := ""
		if p.Member != nil {
			member = *p.Member
		}
		out.row(g.Name, state, p.Topic, p.Partition, number(p.Committed), number(p.End), number(p.Lag), member, p.host)
	}
	idle := 0
	for _, m := range g.Members {
		if len(m.Partitions) == 0 {
			idle++
			out.row(g.Name, state, "", "", "", "", "", m.ID, m.Host)
		}
	}
	if len(places) == 0 && idle == 0 {
		out.row(g.Name, state, "", "", "", "", "", "", "")
	}
}

// number is the opposite of known.
func number(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

func (c *connection) seek(ctx context.Context, out *output, to *seekTo) error {
	g, err := c.group(ctx, to.group)
	if err != nil {
		return err
	}
	topics, err := c.existing(ctx, []string{to.topic})
	if err != nil {
		return err
	}
	if err := to.partition.check(to.topic, int32(len(topics[0].Partitions))); err != nil {
		return err
	}
	switch _, members := stateOf(&g); {
	case members < 0:
		return fmt.Errorf("group %s is of a protocol whose members are not seen from here; nothing was changed", to.group)
	case members > 0 || g.State != kafka.GroupEmpty:
		return fmt.Errorf("group %s is %s, with %s: stop what reads, then seek; nothing was changed", to.group, g.State, plural(int(members), "member"))
	}
	offset, err := c.seekOffset(ctx, to)
	if err != nil {
		return err
	}
	err = c.client.SeekGroup(ctx, to.group, to.topic, int32(to.partition), offset)
	var code *kafka.CodeError
	if errors.As(err, &code) && code.Code == kafka.UnknownMember {
		return fmt.Errorf("group %s has got a member just now: stop what reads, then seek; nothing was changed (%w)", to.group, err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out.app.stderr, "group %s goes on at %d in %s/%d\n", to.group, offset, to.topic, to.partition)
	return nil
}

// seekOffset is the offset that is meant. One outside of what the partition has
// is refused: reading on from there would fail, or begin elsewhere.
func (c *connection) seekOffset(ctx context.Context, to *seekTo) (int64, error) {
	starts, err := c.client.ListOffsets(ctx, to.topic, kafka.Earliest)
	if err != nil {
		return 0, err
	}
	ends, err := c.client.ListOffsets(ctx, to.topic, kafka.Latest)
	if err != nil {
		return 0, err
	}
	start, end := starts[int32(to.partition)], ends[int32(to.partition)]
	switch {
	case to.offset == kafka.Earliest:
		return start, nil
	case to.offset == kafka.Latest:
		return end, nil
	case to.offset < start || to.offset > end:
		return 0, misuse("OFFSET %d: %s/%d has %d to %d", to.offset, to.topic, to.partition, start, end)
	}
	return to.offset, nil
}
