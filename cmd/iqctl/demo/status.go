package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/iqgate/iqgate/cmd/internal/cluster"
	"github.com/iqgate/iqgate/cmd/internal/human"
)

// show shows the status until ctx ends.
func (r *run) show(ctx context.Context) error {
	tick := time.NewTicker(r.screen.every())
	defer tick.Stop()
	defer r.screen.clear()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			block, line := r.status()
			r.screen.status(block, line)
		}
	}
}

// status is the moment as a block and as one line.
func (r *run) status() (block []string, line string) {
	total := int64(len(r.flights.lines))
	fed := r.fed.Load()
	processed := min(r.processed.Load(), fed) // the two are not read at one moment
	block = append(block, "",
		r.screen.bold(fmt.Sprintf("%s  %5.1fs of %s", bar(processed, total), r.now().Seconds(), r.o.Duration)),
		fmt.Sprintf("flights   fed %s of %s, processed %s", human.Thousands(fed), human.Thousands(total), human.Thousands(processed)))
	var parts []string
	if c := r.view.Load(); c != nil {
		for _, v := range c.Nodes {
			block = append(block, fmt.Sprintf("%-9s %s", v.Name, describe(v)))
			parts = append(parts, v.Name+" "+brief(v))
		}
	}
	block = append(block, "", fmt.Sprintf(tableRow, "reads", "served", "failed", "by active", "by standby", "longest gap", "stalest"))
	served, failed := 0, 0
	now := r.now()
	for _, d := range r.readers {
		t := d.at(now)
		served, failed = served+t.served, failed+t.failed
		block = append(block, fmt.Sprintf(tableRow, d.policy.name,
			human.Thousands(int64(t.served)), human.Thousands(int64(t.failed)), human.Thousands(int64(t.active)), human.Thousands(int64(t.standby+t.warmup)), human.Short(t.longestGap), human.Short(t.stalest)))
	}
	line = fmt.Sprintf("fed %s, processed %s | %s | reads %s, failed %s",
		human.Thousands(fed), human.Thousands(processed), strings.Join(parts, ", "), human.Thousands(int64(served)), human.Thousands(int64(failed)))
	return block, line
}

// brief is a node in one word: actives+standbys, and what else there is.
func brief(v cluster.Node) string {
	switch {
	case !v.Alive:
		return "gone"
	case v.Suspect:
		return "silent"
	}
	text := fmt.Sprintf("%da+%ds", v.Active, v.Standby)
	if v.Restoring > 0 {
		text += fmt.Sprintf("+%dr", v.Restoring)
	}
	if v.Standby > 0 {
		text += " " + human.Short(v.LagTime)
	}
	return text
}

const barWidth = 40

// bar draws how much of total is done.
func bar(done, total int64) string {
	n := 0
	if total > 0 {
		n = int(min(done, total) * barWidth / total)
	}
	return "[" + strings.Repeat("=", n) + strings.Repeat(" ", barWidth-n) + "]"
}
