package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Where Kafka is from.
const (
	kafkaEmbedded = "embedded"
	kafkaReal     = "real"
)

// Bounds of the options.
const (
	minRounds   = 1
	maxRounds   = 100
	quickRounds = 2
	maxNice     = 19 // and -20 at least
	// minRecords leaves something to measure, maxRecords some room on the disk.
	minRecords = 10_000
	maxRecords = 50_000_000
)

// Options of a run. There are no defaults but those of the command's flags.
type Options struct {
	// Kafka is real or embedded; Kafka Streams needs the real one.
	Kafka string
	// Rounds is how many times each measure is taken.
	Rounds int
	// Only limits the run to some measures; none means all.
	Only []string
	// Quick takes less input and less time for each measure.
	Quick bool
	// Report is the Markdown file to write; a plot of the same name with .svg appears beside it. Empty: none.
	Report string
	// Records is the length of the input. 0 is the default: 2,000,000, or 300,000 with Quick.
	Records int
	// Nice is the priority of all processes of the run, as of nice(1): below 0, which takes root, other programs disturb less.
	Nice int
	// Bin is the folder of iqnode and iqrouter. Empty: beside this executable, else built by the go command.
	Bin string
	// Keep keeps logs and stores.
	Keep bool
	// JSON prints the result as one object in the last line.
	JSON bool
}

// An OptionError is options that make no sense: every fault, by flag.
type OptionError struct{ err error }

func (e *OptionError) Error() string { return strings.ReplaceAll(e.err.Error(), "\n", "; ") }

// Unwrap gives the faults.
func (e *OptionError) Unwrap() error { return e.err }

// check reports everything that is wrong with the options.
func (o Options) check() error {
	var errs []error
	if o.Rounds < minRounds || o.Rounds > maxRounds {
		errs = append(errs, fmt.Errorf("--rounds %d: must be from %d to %d", o.Rounds, minRounds, maxRounds))
	}
	if o.Records != 0 && (o.Records < minRecords || o.Records > maxRecords) {
		errs = append(errs, fmt.Errorf("--records %d: must be from %d to %d", o.Records, minRecords, maxRecords))
	}
	if o.Nice < -maxNice-1 || o.Nice > maxNice {
		errs = append(errs, fmt.Errorf("--nice %d: must be from %d to %d", o.Nice, -maxNice-1, maxNice))
	}
	if o.Kafka != kafkaEmbedded && o.Kafka != kafkaReal {
		errs = append(errs, fmt.Errorf("--kafka %q: must be %s or %s", o.Kafka, kafkaReal, kafkaEmbedded))
	}
	for _, id := range o.Only {
		if !slices.Contains(measureIDs(), id) {
			errs = append(errs, fmt.Errorf("--only %q: must be of %s", id, strings.Join(measureIDs(), ", ")))
		}
	}
	if o.Report != "" && !strings.HasSuffix(o.Report, ".md") {
		errs = append(errs, fmt.Errorf("--report %q: must end in .md", o.Report))
	}
	if len(errs) > 0 {
		return &OptionError{errors.Join(errs...)}
	}
	return nil
}

// A size is how much of everything a run takes.
type size struct {
	records, keys, partitions int
	valueBytes                int
	// warm and length are of one measurement of lookups, oneLength of one with a single lookup in flight.
	warm, length, oneLength time.Duration
	// jvmWarm is how long a JVM is asked before the first measurement, and jvmWarmReads how many times at least, so that its
	// compiler has done its work.
	jvmWarm      time.Duration
	jvmWarmReads int
	// flow is how long the input of a standby flows.
	flow time.Duration
}

func (o Options) size() size {
	s := size{
		records: 2_000_000, keys: 100_000, partitions: 8, valueBytes: 100,
		warm: 2 * time.Second, length: 10 * time.Second, oneLength: 5 * time.Second, jvmWarm: 20 * time.Second, jvmWarmReads: 400_000, flow: 20 * time.Second,
	}
	if o.Quick {
		s.records, s.jvmWarmReads = 300_000, 150_000
		s.warm, s.length, s.oneLength, s.jvmWarm, s.flow = 500*time.Millisecond, 2*time.Second, time.Second, 5*time.Second, 4*time.Second
	}
	if o.Records != 0 {
		s.records, s.keys = o.Records, min(s.keys, o.Records)
	}
	return s
}
