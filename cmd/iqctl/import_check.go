package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/follow"
	"github.com/iqgate/iqgate/kafka"
)

// errNotServed ends an import-check that found something that would not be served. All that is to be said has been printed.
var errNotServed = errors.New("not everything would be served")

// importCheck is the command's flags.
type importCheck struct {
	file  string
	draft bool
}

func newImportCheckCommand(a *app) *cobra.Command {
	var o importCheck
	cmd := &cobra.Command{
		Use:   "import-check APPLICATION_ID",
		Short: "Say what a node in replica mode would serve of a Kafka Streams application",
		Long: `import-check reads the topics of a Kafka Streams application and says what nodes in replica mode (iqnode --replica)
would serve of it: each store with its kind, partitions and retention, what is missing, and what looks wrong. It asks Kafka, not a
router, and writes nothing. TLS and SASL are set as for iqnode; a password in $IQCTL_KAFKA_PASSWORD or a file.

Without --file it looks at every changelog of the application; what no topic tells, such as the size of windows, it cannot know.
With --file it judges the stores as the file configures them. --draft prints such a file, to be completed.

It ends with 9 when a store that the application's users could ask for would not be served.`,
		Example: `  iqctl import-check orders --brokers kafka:9092
  iqctl import-check orders --brokers kafka:9092 --draft > orders.yaml
  iqctl import-check orders --brokers kafka:9092 --file orders.yaml -o json`,
		Args: exactArgs("APPLICATION_ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.importCheck(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	a.flags(f, groupKafka)
	f.StringVar(&o.file, "file", "", "what a node would be given as --replica")
	f.BoolVar(&o.draft, "draft", false, "print a file for iqnode --replica, with what the topics tell")
	return cmd
}

func (a *app) importCheck(ctx context.Context, application string, o importCheck) error {
	if len(a.brokers) == 0 {
		return usagef("--brokers is missing: Kafka's bootstrap addresses, or set $IQCTL_BROKERS")
	}
	config := follow.Config{Application: application, Discover: true}
	if o.file != "" {
		data, err := os.ReadFile(o.file)
		if err != nil {
			return usagef("--file: %w", err)
		}
		c, err := follow.LoadYAML(data)
		if err != nil {
			return usagef("--file %q: %w", o.file, err)
		}
		if c.Application != application {
			return usagef("--file %q: is of application %q, not %q", o.file, c.Application, application)
		}
		config = *c
	}
	if err := config.Validate(); err != nil {
		return usagef("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	security, _, err := a.kafka.Load()
	if err != nil {
		return usagef("%w", err)
	}
	cl, err := kgo.NewClient(kafka.Options(a.brokers, "iqctl", security.Options()...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	facts, err := follow.Read(ctx, kafka.NewInspector(cl, slog.New(slog.DiscardHandler)), config)
	if err != nil {
		return fmt.Errorf("brokers %s: %w", strings.Join(a.brokers, ","), err)
	}
	plan := follow.Resolve(config, facts)
	switch {
	case o.draft:
		_, err = io.WriteString(a.out, follow.Draft(config, plan, facts))
		return err
	case a.json():
		err = printJSON(a.out, importShape(config, facts, plan))
	default:
		err = a.printImport(config, facts, plan)
	}
	if err == nil && !allServed(plan) {
		err = errNotServed
	}
	return err
}

// allServed says whether all is served that users of the application could ask for.
func allServed(plan follow.Plan) bool {
	for _, p := range plan.Problems {
		if p.Severity == follow.Refusal {
			return false
		}
	}
	for _, f := range plan.Stores {
		if !f.Served() && !f.Buffer {
			return false
		}
	}
	return true
}

func (a *app) printImport(c follow.Config, facts follow.Facts, plan follow.Plan) error {
	p := &printer{w: a.out}
	state := facts.GroupState
	if state == "" {
		state = "there is none"
	}
	p.line(fmt.Sprintf("application %s: %d of %d stores would be served, %d copies each; its group: %s",
		c.Application, len(plan.Served()), len(plan.Stores), c.Copies(), state))
	var rows [][]string
	for _, f := range plan.Stores {
		served := "yes"
		if !f.Served() {
			served = "no"
		}
		kind := unknown
		if f.KindKnown {
			kind = f.Spec.Kind.String()
		}
		rows = append(rows, []string{
			f.Spec.Name, served, kind, strconv.Itoa(int(f.Partitions)), strconv.FormatInt(f.Offsets, 10), span(f.Spec.WindowSize), span(f.Spec.Retention),
			f.Spec.KeySerde, f.Spec.ValueSerde, strings.Join(f.Inputs, ","), f.Spec.Changelog,
		})
	}
	if len(rows) > 0 {
		p.table([]string{"STORE", "SERVED", "KIND", "PARTITIONS", "OFFSETS", "WINDOW", "RETENTION", "KEY", "VALUE", "AT_LEAST OF", "TOPIC"}, rows)
	}
	for _, problem := range plan.Problems {
		p.line(fmt.Sprintf("%s: %s", problem.Severity, oneLine(problem.Text)))
	}
	for _, f := range plan.Stores {
		for _, problem := range f.Problems {
			p.line(fmt.Sprintf("%s: %s: %s", f.Spec.Name, problem.Severity, oneLine(problem.Text)))
		}
	}
	return p.err
}

func span(d time.Duration) string {
	if d == 0 {
		return unknown
	}
	return d.String()
}

// importJSON is what import-check tells in JSON. Durations are milliseconds; absent is not known, or does not apply.
type importJSON struct {
	Application string              `json:"application"`
	GroupState  string              `json:"group_state,omitempty"`
	Reads       []string            `json:"reads"`
	Stores      []importStoreJSON   `json:"stores"`
	Problems    []importProblemJSON `json:"problems"`
}

type importStoreJSON struct {
	Store        string              `json:"store"`
	Topic        string              `json:"topic"`
	Served       bool                `json:"served"`
	Kind         string              `json:"kind,omitempty"`
	KindDetected bool                `json:"kind_detected"`
	Partitions   int32               `json:"partitions"`
	Offsets      int64               `json:"offsets"`
	WindowSizeMS int64               `json:"window_size_ms,omitempty"`
	RetentionMS  int64               `json:"retention_ms,omitempty"`
	KeySerde     string              `json:"key_serde"`
	ValueSerde   string              `json:"value_serde"`
	Partitioner  string              `json:"partitioner"`
	Inputs       []string            `json:"inputs"`
	Problems     []importProblemJSON `json:"problems"`
}

type importProblemJSON struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

func importShape(c follow.Config, facts follow.Facts, plan follow.Plan) importJSON {
	problems := func(list []follow.Problem) []importProblemJSON {
		out := make([]importProblemJSON, 0, len(list))
		for _, p := range list {
			out = append(out, importProblemJSON{Severity: p.Severity.String(), Text: p.Text})
		}
		return out
	}
	shape := importJSON{
		Application: c.Application, GroupState: facts.GroupState, Reads: append([]string{}, facts.Committed...),
		Stores: []importStoreJSON{}, Problems: problems(plan.Problems),
	}
	for _, f := range plan.Stores {
		s := importStoreJSON{
			Store: f.Spec.Name, Topic: f.Spec.Changelog, Served: f.Served(), KindDetected: f.KindDetected, Partitions: f.Partitions,
			Offsets: f.Offsets, WindowSizeMS: f.Spec.WindowSize.Milliseconds(), RetentionMS: f.Spec.Retention.Milliseconds(),
			KeySerde: f.Spec.KeySerde, ValueSerde: f.Spec.ValueSerde, Partitioner: f.Spec.Partitioner,
			Inputs: append([]string{}, f.Inputs...), Problems: problems(f.Problems),
		}
		if f.KindKnown {
			s.Kind = f.Spec.Kind.String()
		}
		shape.Stores = append(shape.Stores, s)
	}
	return shape
}
