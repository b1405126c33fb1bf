package main

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// unknown stands in a table for what is not known, or does not apply.
const unknown = "-"

// printer writes lines and tables and remembers the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(text string) { p.write(text + "\n") }

func (p *printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}

// table writes rows under a heading, aligned. Cells that hold a tab or a line break would break it, so those are shown
// escaped.
func (p *printer) table(heading []string, rows [][]string) {
	const gap = 2
	tw := tabwriter.NewWriter(p.w, 0, 0, gap, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			if strings.ContainsAny(cell, "\t\n\v\f\r") {
				cell = strconv.Quote(cell)
			}
			cells[i] = orUnknown(cell)
		}
		if p.err == nil {
			_, p.err = io.WriteString(tw, strings.Join(cells, "\t")+"\n")
		}
	}
	if p.err == nil {
		p.err = tw.Flush()
	}
}

// candidates writes a decision, in the order of asking and then those that were refused.
func (p *printer) candidates(d *iqv1.Decision) {
	var rows [][]string
	for _, c := range shape.InOrderOfAsking(d.GetCandidates()) {
		r := c.GetReplica()
		rank := unknown
		if c.GetEligible() {
			rank = strconv.Itoa(int(c.GetRank()))
		}
		rows = append(rows, []string{
			rank, r.GetNode(), iqerr.RoleName(r.GetRole()), iqerr.StateName(r.GetState()), offsetLag(r), timeLag(r), c.GetWhy(),
		})
	}
	if len(rows) == 0 {
		p.line("no replica of the partition is known")
		return
	}
	p.table([]string{"RANK", "NODE", "ROLE", "STATE", "OFFSET LAG", "TIME LAG", "WHY"}, rows)
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

func offsetLag(r *iqv1.ReplicaStatus) string {
	if r == nil || r.OffsetLag == nil {
		return unknown
	}
	return strconv.FormatInt(r.GetOffsetLag(), 10)
}

func timeLag(r *iqv1.ReplicaStatus) string { return duration(r.GetTimeLag()) }

func duration(d *durationpb.Duration) string {
	if d == nil {
		return unknown
	}
	return iqerr.Round(d.AsDuration()).String()
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
