package follow

import (
	"context"
	"fmt"

	"github.com/iqgate/iqgate/kafka"
)

// sampleOffsets is how many offsets at the end of each partition are looked at.
const sampleOffsets = 50

// Read asks Kafka for all that Resolve has to know. It reads topics and the application's group and writes nothing.
func Read(ctx context.Context, k *kafka.Inspector, c Config) (Facts, error) {
	f := Facts{Application: c.Application, Topics: make(map[string]Topic)}
	all, err := k.Topics(ctx)
	if err != nil {
		return f, err
	}
	names := make([]string, 0, len(all))
	for name, partitions := range all {
		f.Topics[name] = Topic{Name: name, Partitions: partitions}
		names = append(names, name)
	}
	g, err := k.Group(ctx, c.Application)
	if err != nil {
		return f, fmt.Errorf("ask for group %s: %w", c.Application, err)
	}
	f.GroupState, f.Committed = g.State, g.Topics
	var wanted []string
	for _, name := range Wanted(c, names) {
		if _, exists := all[name]; exists {
			wanted = append(wanted, name)
		}
	}
	configs, err := k.Configs(ctx, wanted)
	if err != nil {
		return f, err
	}
	samples, err := k.Newest(ctx, wanted, sampleOffsets)
	if err != nil {
		return f, err
	}
	for _, name := range wanted {
		t := f.Topics[name]
		t.Configs, t.Offsets = configs[name], samples[name].Offsets
		for _, rec := range samples[name].Records {
			t.Records = append(t.Records, Record{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp.UnixMilli(), Headers: len(rec.Headers)})
		}
		f.Topics[name] = t
	}
	return f, nil
}
