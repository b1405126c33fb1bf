package integration

import (
	"strings"

	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/topology"
)

// caster is S28's partitioner: "all-*" to every partition, "pair-*" to the first and the last, "drop-*" to none, the rest
// by murmur2; and "beyond-*" and "below-*" also to partitions that do not exist.
func caster() partitioner.Partitioner {
	return partitioner.Custom("caster", nil, func(_ string, key, _ []byte, n int32) partitioner.Choice {
		kind, _, _ := strings.Cut(string(key), "-")
		switch kind {
		case "all":
			return partitioner.All()
		case "pair":
			return partitioner.Partitions(0, n-1)
		case "drop":
			return partitioner.Drop()
		case "beyond":
			return partitioner.Partitions(0, n)
		case "below":
			return partitioner.Partitions(-1, 0)
		}
		return partitioner.Default()
	})
}

// casters knows the caster besides the built-in partitioners.
func casters() *partitioner.Registry {
	r, err := partitioner.NewRegistry(caster())
	if err != nil {
		panic(err)
	}
	return r
}

// castTable sends the records of one topic through a sink with the caster to another, of which a second sub-topology keeps
// the last value of each key in the store "table", which looks keys up by the same partitioner.
func castTable(application, from, to string) *topology.Topology {
	keep := func() topology.Processor {
		return topology.ProcessorFunc(func(ctx topology.Context, r topology.Record) error {
			return ctx.Store("table").Put(r.Key, r.Value, r.Timestamp)
		})
	}
	pass := func() topology.Processor {
		return topology.ProcessorFunc(func(ctx topology.Context, r topology.Record) error {
			ctx.Forward(r)
			return nil
		})
	}
	t, err := topology.New().
		Source("read", from).Processor("pass", pass, "read").Sink("caster-sink", to, caster(), "pass").
		Source("read-cast", to).Processor("keep", keep, "read-cast").
		Store(topology.StoreSpec{Name: "table", KeySerde: "string", ValueSerde: "string", Partitioner: "caster"}, "keep").
		Build(application)
	if err != nil {
		panic(err)
	}
	return t
}
