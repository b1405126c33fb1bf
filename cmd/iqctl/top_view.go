package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/iqgate/iqgate/cmd/internal/human"
	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A topOrder is by what the replicas are ordered.
type topOrder int

const (
	byPlace topOrder = iota // store and partition
	byLag                   // the furthest behind first
	byRate                  // the busiest first
	byHost                  // node
	topOrders
)

func (o topOrder) String() string {
	return [...]string{"partition", "lag", "rate", "node"}[o]
}

// A topView is what top shows: the cluster as it was told last, and how the user looks at it. It is made of values alone; its
// methods read no clock.
type topView struct {
	instances map[string]*iqv1.Instance
	stores    int
	rates     map[replicaKey]rate
	told      bool // something was told

	order   topOrder
	reverse bool
	onNodes bool // the keys scroll the nodes, not the replicas
	paused  bool // what comes is kept from the screen
	help    bool
	nodes   int // the first node that is shown
	first   int // the first replica that is shown
	page    int // how many lines the list that the keys scroll had when it was drawn last
}

// replicaKey names a replica in its cluster.
type replicaKey struct {
	node, store string
	partition   int32
}

// A rate is how fast a position moves.
type rate struct {
	position  int64
	at        time.Time
	perSecond float64
	known     bool
}

// rateWindow is the least time over which a rate is measured; shorter ones would show how messages happened to come.
const rateWindow = 900 * time.Millisecond

func newTopView() *topView {
	return &topView{instances: make(map[string]*iqv1.Instance), rates: make(map[replicaKey]rate)}
}

// take takes in a message of a metadata watch that came at a time.
func (v *topView) take(m *iqv1.WatchMetadataResponse, now time.Time) {
	v.told = true
	if m.GetSnapshot() {
		clear(v.instances)
	}
	if m.GetSnapshot() || len(m.GetStores()) > 0 {
		v.stores = len(m.GetStores())
	}
	for _, id := range m.GetGone() {
		delete(v.instances, id)
	}
	for _, i := range m.GetInstances() {
		v.instances[i.GetNode()] = i
	}
	seen := make(map[replicaKey]rate, len(v.rates))
	for _, i := range v.instances {
		for _, r := range i.GetReplicas() {
			key := replicaKey{i.GetNode(), r.GetStore(), r.GetPartition()}
			seen[key] = v.rates[key].next(r.GetPosition(), now)
		}
	}
	v.rates = seen
}

// next is the rate after a position was told at a time. A position that went back is of another changelog: the rate begins anew.
func (r rate) next(position int64, now time.Time) rate {
	passed := now.Sub(r.at)
	switch {
	case r.at.IsZero() || position < r.position:
		return rate{position: position, at: now}
	case passed < rateWindow:
		return r
	}
	return rate{position: position, at: now, perSecond: float64(position-r.position) / passed.Seconds(), known: true}
}

// A topStyle says how a line stands out.
type topStyle int

const (
	stylePlain topStyle = iota
	styleHead           // a heading
	styleBad            // dead, suspended
	styleWarn           // suspect, restoring, draining
)

// A topLine is a line of the screen.
type topLine struct {
	text  string
	style topStyle
}

// A topColumn is a column of a table. Where the screen is too narrow the columns of the highest rank go first.
type topColumn struct {
	head  string
	rank  int
	right bool
}

var (
	nodeColumns = []topColumn{
		{head: "NODE"},
		{head: "STATE"},
		{head: "ACTIVE", rank: 1, right: true},
		{head: "STANDBY", rank: 1, right: true},
		{head: "RESTORING", rank: 3, right: true},
		{head: "SUSPENDED", rank: 4, right: true},
		{head: "RATE", rank: 2, right: true},
		{head: "BEHIND", rank: 0, right: true},
		{head: "HEARD", rank: 5, right: true},
		{head: "RACK", rank: 6},
		{head: "ADDRESS", rank: 7},
	}
	replicaColumns = []topColumn{
		{head: "STORE"},
		{head: "PART", right: true},
		{head: "NODE"},
		{head: "ROLE"},
		{head: "STATE", rank: 1},
		{head: "OFFSETS", rank: 0, right: true},
		{head: "TIME", rank: 0, right: true},
		{head: "RATE", rank: 2, right: true},
		{head: "POSITION", rank: 4, right: true},
		{head: "END", rank: 5, right: true},
	}
)

// A topRow is a row of a table.
type topRow struct {
	cells []string
	style topStyle
}

// Limits of the screen. A smaller one is drawn as far as it goes.
const (
	unbounded    = math.MaxInt32 // the size of what is no terminal
	minList      = 3             // lines that a list gets in any case
	nodeShare    = 3             // the nodes get the third part of the screen unless the keys scroll them
	topSeparator = 2             // blanks between two columns
)

// frame is the screen, at most height lines of at most width letters. source is whom top asks; note is what went wrong last.
func (v *topView) frame(width, height int, source, note string, now time.Time) []topLine {
	lines := []topLine{{text: v.title(source, now), style: styleHead}}
	if note != "" {
		lines = append(lines, topLine{note, styleBad})
	}
	switch {
	case v.help:
		lines = append(lines, helpLines()...)
	case !v.told:
		lines = append(lines, topLine{text: "waiting for " + source})
	case len(v.instances) == 0:
		lines = append(lines, topLine{text: "no nodes"})
	default:
		lines = append(lines, v.lists(width, height-len(lines)-1)...)
	}
	if height != unbounded {
		if len(lines) > height-1 {
			lines = lines[:max(height-1, 0)]
		}
		for len(lines) < height-1 {
			lines = append(lines, topLine{})
		}
		lines = append(lines, topLine{text: v.footer()})
	}
	for i := range lines {
		lines[i].text = clip(lines[i].text, width)
	}
	return lines[:min(len(lines), height)]
}

// title counts what there is.
func (v *topView) title(source string, now time.Time) string {
	counts := map[string]int{}
	replicas := 0
	for _, i := range v.instances {
		counts[shape.StateOf(i)]++
		replicas += len(i.GetReplicas())
	}
	text := "iqctl top  " + now.UTC().Format("15:04:05")
	if v.told && len(v.instances) > 0 {
		text += "  " + countsText(len(v.instances), counts) + "  " + human.Count(v.stores, "store") + ", " + human.Count(replicas, "replica")
	}
	if v.paused {
		text += "  PAUSED"
	}
	return text + "  " + source
}

func (v *topView) footer() string {
	order := v.order.String()
	if v.reverse {
		order += " reversed"
	}
	list := "replicas"
	if v.onNodes {
		list = "nodes"
	}
	return "q quit  h help  s sort (" + order + ")  r reverse  p pause  tab scroll (" + list + ")"
}

func helpLines() []topLine {
	var lines []topLine
	for _, text := range []string{
		"", "  q, Ctrl-C       quit", "  s               sort replicas by partition, lag, rate or node", "  r               reverse the order",
		"  p, space        pause; what comes is shown when you go on", "  tab             scroll the nodes or the replicas",
		"  up, down, j, k  scroll a line", "  page up, down   scroll a page", "  home, end       scroll to the begin or the end", "  h, ?            leave this help", "",
		"  RATE     changelog offsets a second that the replica takes in; for an active, what it writes",
		"  OFFSETS  changelog offsets that it is behind", "  TIME     an upper bound on the age of what it would answer", "  BEHIND   the replica of the node that is furthest behind",
	} {
		lines = append(lines, topLine{text: text})
	}
	return lines
}

// lists are the nodes and the replicas, in at most height lines.
func (v *topView) lists(width, height int) []topLine {
	nodes, replicas := v.nodeRows(), v.replicaRows()
	const frames = 3 // two headings, and a line between
	room := height - frames
	forNodes := len(nodes)
	if height < unbounded/2 {
		forNodes = min(len(nodes), max(room/nodeShare, minList))
		if v.onNodes {
			forNodes = min(len(nodes), max(room-min(len(replicas), minList), minList))
		}
	}
	forReplicas := max(room-forNodes, 0)
	if height >= unbounded/2 {
		forReplicas = len(replicas)
	}
	v.page = max(forReplicas, 1)
	if v.onNodes {
		v.page = max(forNodes, 1)
	}
	v.nodes, v.first = within(v.nodes, len(nodes), forNodes), within(v.first, len(replicas), forReplicas)
	lines := tableLines(nodeColumns, nodes, v.nodes, forNodes, width)
	lines = append(lines, topLine{text: joined(part("nodes", v.nodes, forNodes, len(nodes)), part("replicas", v.first, forReplicas, len(replicas)))})
	return append(lines, tableLines(replicaColumns, replicas, v.first, forReplicas, width)...)
}

// part says which part of a list is shown; empty for all of it.
func part(what string, first, shown, length int) string {
	if shown >= length {
		return ""
	}
	return fmt.Sprintf("%s %d to %d of %d", what, first+1, first+shown, length)
}

func joined(a, b string) string {
	if a != "" && b != "" {
		return a + ", " + b
	}
	return a + b
}

// within keeps the first line of a window on a list inside the list.
func within(first, length, window int) int { return max(min(first, length-window), 0) }

// nodeRows are the nodes by name.
func (v *topView) nodeRows() []topRow {
	var rows []topRow
	for _, i := range v.sorted() {
		n := summarise(i)
		state, style := n.State, stylePlain
		stopped := n.Suspended != nil && *n.Suspended > 0 && n.State != shape.Dead
		switch {
		case n.State == shape.Dead || stopped:
			style = styleBad
		case n.State == shape.Suspect || n.Draining || n.Restoring != nil && *n.Restoring > 0:
			style = styleWarn
		}
		if n.Draining {
			state += ", draining"
		}
		if stopped {
			state += fmt.Sprintf(", %d suspended", *n.Suspended)
		}
		total, known := 0.0, false
		for _, r := range i.GetReplicas() {
			if x := v.rates[replicaKey{i.GetNode(), r.GetStore(), r.GetPartition()}]; x.known && i.GetAlive() {
				total, known = total+x.perSecond, true
			}
		}
		rows = append(rows, topRow{style: style, cells: []string{
			n.Node, state, count(n.Active), count(n.Standby), count(n.Restoring), count(n.Suspended), rateText(total, known), n.worst, n.heard, n.Rack, n.Address,
		}})
	}
	return rows
}

func (v *topView) sorted() []*iqv1.Instance {
	var all []*iqv1.Instance
	for _, i := range v.instances {
		all = append(all, i)
	}
	slices.SortFunc(all, byNode)
	return all
}

// replicaRows are the replicas in the order that the user chose.
func (v *topView) replicaRows() []topRow {
	type shown struct {
		*iqv1.ReplicaStatus
		node string
		rate rate
		dead bool
	}
	var all []shown
	for _, i := range v.sorted() {
		for _, r := range i.GetReplicas() {
			all = append(all, shown{r, i.GetNode(), v.rates[replicaKey{i.GetNode(), r.GetStore(), r.GetPartition()}], !i.GetAlive()})
		}
	}
	slices.SortStableFunc(all, func(a, b shown) int {
		order := 0
		switch v.order {
		case byLag:
			order = cmp.Or(cmp.Compare(lagWeight(b.ReplicaStatus), lagWeight(a.ReplicaStatus)), cmp.Compare(b.GetTimeLag().AsDuration(), a.GetTimeLag().AsDuration()))
		case byRate:
			order = cmp.Compare(b.rate.perSecond, a.rate.perSecond)
		case byHost:
			order = cmp.Compare(a.node, b.node)
		case byPlace, topOrders:
		}
		if order = cmp.Or(order, shape.ByPartition(a.ReplicaStatus, b.ReplicaStatus)); v.reverse {
			return -order
		}
		return order
	})
	var rows []topRow
	for _, r := range all {
		row := topRow{cells: []string{
			r.GetStore(), strconv.Itoa(int(r.GetPartition())), r.node, iqerr.RoleName(r.GetRole()), iqerr.StateName(r.GetState()), unknown, unknown,
			rateText(r.rate.perSecond, r.rate.known && !r.dead), strconv.FormatInt(r.GetPosition(), 10), strconv.FormatInt(r.GetEndPosition(), 10),
		}}
		switch {
		case r.dead:
			row.cells[4], row.style = "node is dead", styleBad // its lags are old
		default:
			row.cells[5], row.cells[6] = offsetLag(r.ReplicaStatus), timeLag(r.ReplicaStatus)
			if r.GetState() == iqv1.ReplicaState_REPLICA_STATE_SUSPENDED {
				row.style = styleBad
			} else if r.GetState() == iqv1.ReplicaState_REPLICA_STATE_RESTORING {
				row.style = styleWarn
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// lagWeight orders by offset lag; one that is not known is the furthest behind.
func lagWeight(r *iqv1.ReplicaStatus) int64 {
	if r.OffsetLag == nil {
		return math.MaxInt64
	}
	return r.GetOffsetLag()
}

func rateText(perSecond float64, known bool) string {
	if !known {
		return unknown
	}
	return human.Thousands(int64(math.Round(perSecond))) + "/s"
}

// tableLines are a heading and at most height rows from first on.
func tableLines(columns []topColumn, rows []topRow, first, height, width int) []topLine {
	shown := columnsWithin(columns, rows, width)
	widths := make([]int, len(columns))
	for _, at := range shown {
		widths[at] = columnWidth(columns, rows, at)
	}
	write := func(cells func(at int) string) string {
		var b strings.Builder
		for n, at := range shown {
			text := cells(at)
			pad := strings.Repeat(" ", max(widths[at]-utf8.RuneCountInString(text), 0))
			if columns[at].right {
				text = pad + text
			} else {
				text += pad
			}
			if n > 0 {
				b.WriteString(strings.Repeat(" ", topSeparator))
			}
			b.WriteString(text)
		}
		return strings.TrimRight(b.String(), " ")
	}
	end := min(first+height, len(rows))
	lines := []topLine{{write(func(at int) string { return columns[at].head }), styleHead}}
	for _, row := range rows[first:end] {
		lines = append(lines, topLine{write(func(at int) string { return cellText(row.cells[at]) }), row.style})
	}
	return lines
}

// columnsWithin chooses the columns that fit: all of a rank or none.
func columnsWithin(columns []topColumn, rows []topRow, width int) []int {
	highest := 0
	for _, c := range columns {
		highest = max(highest, c.rank)
	}
	for rank := highest; ; rank-- {
		var shown []int
		total := -topSeparator
		for at, c := range columns {
			if c.rank <= rank {
				shown = append(shown, at)
				total += columnWidth(columns, rows, at) + topSeparator
			}
		}
		if total <= width || rank == 0 {
			return shown
		}
	}
}

// columnWidth is the widest cell of a column. It looks at all rows, not those that are shown, so that scrolling moves no column.
func columnWidth(columns []topColumn, rows []topRow, at int) int {
	widest := len(columns[at].head)
	for _, row := range rows {
		widest = max(widest, utf8.RuneCountInString(cellText(row.cells[at])))
	}
	return widest
}

// clip cuts a line at the edge of the screen.
func clip(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(width, 0)])
}
